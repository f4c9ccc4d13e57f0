// What every panel shows beside its controls and plots: the sentence with the number that
// matters, an error where there is one, the command that brings the state back, Reset.

function element(tag, name, parent, text = "") {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  parent.append(made);
  return made;
}

// ipywidgets leaves sliders without a name, and reads a logarithmic one by its exponent.
function nameControls(controls) {
  for (const slider of controls.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector(".widget-label")?.textContent;
    const handle = slider.querySelector("[role=slider]");
    const readout = slider.querySelector(".widget-readout");
    if (!label || !handle || !readout) continue; // still being made
    handle.setAttribute("aria-label", label);
    handle.setAttribute("aria-valuetext", readout.textContent);
    readout.setAttribute("aria-label", `${label}, as a number`);
  }
  for (const chips of controls.querySelectorAll(".lnlab-chips")) {
    chips.setAttribute("role", "group");
    chips.setAttribute("aria-label", chips.querySelector(".widget-label").textContent);
  }
  for (const button of controls.querySelectorAll(".jupyter-button.widget-toggle-button")) {
    button.setAttribute("aria-pressed", String(button.classList.contains("mod-active")));
  }
}

async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy command"), 1500);
}

// Milliseconds after which a panel that has not answered says that it is at work.
const BUSY = 300;

// Milliseconds without a new state after which the plots that need not follow are asked for.
const REST = 300;

function render({ model, el }) {
  el.classList.add("lnlab-footer");
  const sentence = element("p", "lnlab-sentence", el);
  sentence.setAttribute("role", "status");
  const error = element("p", "lnlab-error", el);
  error.setAttribute("role", "alert");
  const line = element("div", "lnlab-command", el);
  const reset = element("button", "jupyter-button", line, "Reset");
  const button = element("button", "jupyter-button", line, "Copy command");
  const command = element("code", "", line);
  if (!model.get("command")) for (const part of [button, command]) part.remove();

  reset.onclick = () => model.send({ kind: "reset" });
  button.onclick = () => copy(command.textContent, button);

  const show = () => {
    sentence.textContent = model.get("sentence");
    error.textContent = model.get("error");
    error.hidden = !error.textContent;
    command.textContent = model.get("command");
  };
  show();
  const changes = "change:sentence change:error change:command";
  model.on(changes, show);

  let rest;
  const stir = () => {
    clearTimeout(rest);
    rest = setTimeout(() => model.send({ kind: "rest" }), REST);
  };
  model.on("change:command", stir);
  model.send({ kind: "ready" });
  stir();

  const panel = () => el.closest(".lnlab-panel");
  let busy;
  const ask = () => {
    clearTimeout(busy);
    busy = setTimeout(() => panel()?.setAttribute("aria-busy", "true"), BUSY);
  };
  const answer = () => {
    clearTimeout(busy);
    panel()?.removeAttribute("aria-busy");
  };
  model.on("change:num_answers", answer);

  let observer;
  let waiting = requestAnimationFrame(function adopt() {
    const controls = el.closest(".lnlab-panel")?.querySelector(".lnlab-controls");
    if (!controls) {
      waiting = requestAnimationFrame(adopt); // not yet on the page
      return;
    }
    nameControls(controls);
    controls.addEventListener("change", ask);
    controls.addEventListener("click", ({ target }) => target.closest("button") && ask());
    observer = new MutationObserver((changes) => {
      nameControls(controls);
      // a number moves when its slider does, or while somebody types it
      const number = ({ target }) => (target.closest ? target : target.parentElement)
        ?.closest(".widget-readout");
      const moved = changes.map(number).filter((one) => one && one !== document.activeElement);
      if (moved.length) ask();
    });
    const watched = { childList: true, characterData: true, attributeFilter: ["class"] };
    observer.observe(controls, { ...watched, subtree: true });
  });

  return () => {
    cancelAnimationFrame(waiting);
    observer?.disconnect();
    clearTimeout(rest);
    model.off(changes, show);
    model.off("change:command", stir);
    model.off("change:num_answers", answer);
    clearTimeout(busy);
  };
}

export default { render };
