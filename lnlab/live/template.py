"""A run of lnlab's playground in Python: its losses, to nine digits where it is stable."""

import torch

from lnlab.live.replay import BatchOrder, examples, network

start = {}
changes = []  # after how many updates, and what was changed
updates = 0  # made when this was copied

x, y = examples(start["dataset"])
losses = {}  # of each batch, by normalizer and seed
for norm in start["norms"]:
    for seed in range(start["seeds"]):
        state, changed, factors = dict(start), list(changes), {}
        net, batches = network(state, norm, seed), BatchOrder(len(x), seed)
        if state["optimizer"] == "sgd":
            optimizer = torch.optim.SGD(net.parameters())
        else:
            optimizer = torch.optim.Adam(net.parameters())
        changed.insert(0, (0, {"weights": start["weights"]}))
        losses[norm, seed] = []
        for update in range(updates):
            while changed and changed[0][0] == update:
                state |= (new := changed.pop(0)[1])
                if "weights" in new:
                    layer, factor = state["layer"], state["weights"]
                    W = next(net[2 * layer - 2].parameters())
                    with torch.no_grad():
                        W.mul_(factor / factors.get(layer, 1))
                    factors[layer] = factor
            optimizer.param_groups[0].update(lr=state["rate"], weight_decay=state["decay"])
            if state["optimizer"] == "sgd":
                optimizer.param_groups[0]["momentum"] = state["momentum"]
            net.train(state["mode"] == "training")
            batch = batches.take(state["batch"])
            loss = torch.nn.functional.cross_entropy(
                net(x[batch] * state["scale"] + state["shift"]), y[batch]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[norm, seed].append(loss.item())
    last = [
        round(loss, 9) for seed in range(start["seeds"]) for loss in losses[norm, seed][-1:]
    ]
    print(f"{norm} after {updates} updates: {last}")
