"""A run of lnlab's playground in Python: its losses, to nine digits where it is stable."""

import torch

from lnlab.live.replay import BatchIndexSampler, initial_network, training_examples

start = {}
changes = []  # after how many updates, and what was changed
updates = 0  # made when this was copied

x, y = training_examples(start["dataset"])
losses = {}  # of each batch, by normalizer and seed
for norm in start["norms"]:
    for seed in range(start["seeds"]):
        state, factors = dict(start), {}
        changed = [(0, {"weights": start["weights"]}), *changes]
        net, batches = initial_network(state, norm, seed), BatchIndexSampler(len(x), seed)
        maker = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[start["optimizer"]]
        optimizer = maker(net.parameters())
        losses[norm, seed] = []
        for update in range(updates):
            while changed and changed[0][0] == update:
                state |= (new := changed.pop(0)[1])
                if "weights" in new:
                    layer, factor = state["layer"], state["weights"]
                    net[2 * layer - 2].W.data *= factor / factors.get(layer, 1)
                    factors[layer] = factor
            optimizer.param_groups[0].update(lr=state["rate"], weight_decay=state["decay"])
            optimizer.param_groups[0]["momentum"] = state["momentum"]  # Adam has none
            net.train(state["mode"] == "training")
            batch = batches.next_batch(state["batch"])
            outputs = net(x[batch] * state["scale"] + state["shift"])
            loss = torch.nn.functional.cross_entropy(outputs, y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[norm, seed].append(loss.item())
    runs = [losses[norm, seed] for seed in range(start["seeds"])]
    last = [round(run[-1], 9) for run in runs if run]
    print(f"{norm} after {updates} updates, losses of the last batch: {last}")
