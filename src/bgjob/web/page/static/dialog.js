// Dialogs: a question before what cannot be undone, the keys, and a frame for others.

import { element } from "./element.js";

let number = 0;

// Shows it until it is closed. `close` of the answer closes it, with a value that `closed` is told.
export function dialog(heading, content, { className = "" } = {}) {
  const id = `dialog-${++number}`;
  const node = element(
    "dialog",
    { class: className, "aria-labelledby": id },
    element("h2", { id }, heading),
    content,
  );
  document.body.append(node);
  const closed = new Promise((answer) =>
    node.addEventListener("close", () => {
      node.remove();
      answer(node.returnValue);
    }),
  );
  node.addEventListener(
    "click",
    (event) => event.target === node && isOutside(node, event) && node.close(""),
  );
  node.showModal();
  return { node, closed, close: (value = "") => node.close(value) };
}

function isOutside(node, { clientX, clientY }) {
  const { left, right, top, bottom } = node.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

// Whether the user wants it. The button that does nothing has the focus.
export async function confirmed(heading, text, act) {
  const no = element("button", { type: "button", autofocus: true, onclick: () => shown.close() }, "Cancel");
  const yes = element("button", { type: "button", class: "danger", onclick: () => shown.close("yes") }, act);
  const shown = dialog(heading, element("div", {}, text, element("p", { class: "choices" }, no, yes)));
  return (await shown.closed) === "yes";
}

const KEYS = [
  [
    "In the list",
    [
      ["j k ↓ ↑", "next, previous job"],
      ["g G", "first, last job"],
      ["enter", "open the job"],
      ["a", "attach: its terminal, or a line to type"],
      ["l", "its log"],
      ["x", "kill it"],
      ["m", "all that can be done with it"],
      ["/", "filter"],
    ],
  ],
  [
    "In the timeline",
    [
      ["↓ ↑", "next, previous job"],
      ["→ ←", "what happened to the job"],
      ["enter", "open the job"],
      ["+ -", "closer, wider"],
      ["shift → ←", "later, earlier"],
      ["escape", "back from a span that was dragged over"],
    ],
  ],
  [
    "In a job",
    [
      ["l", "its log"],
      ["a", "its terminal, or a line to type"],
      ["f", "all that is known of it"],
      ["x", "kill it"],
      ["m", "all that can be done with it"],
    ],
  ],
  [
    "Everywhere",
    [
      ["n", "start a new job"],
      ["t", "timeline"],
      ["r", "resources"],
      ["escape", "back to the list; in the list, the filter is cleared"],
      ["?", "these keys"],
    ],
  ],
];
const FILTER = [
  ["make", "is in the id, name, command, directory, or in who started it"],
  ["name=dev", "in one of them alone; also id, command, cwd, by, session, group"],
  ["cwd=/srv/app", "in that directory, and all below it"],
  ["status=failed", "queued, running, completed, failed or killed"],
];

export function help() {
  const table = (rows, tag) =>
    element(
      "dl",
      { class: "keys" },
      rows
        .map(([key, what]) => [
          element(
            "dt",
            {},
            ...(tag === "kbd"
              ? key.split(" ").map((one) => element("kbd", {}, one))
              : [element("code", {}, key)]),
          ),
          element("dd", {}, what),
        ])
        .flat(),
    );
  const close = element("button", { type: "button", autofocus: true, onclick: () => shown.close() }, "Close");
  const shown = dialog(
    "Keys",
    element(
      "div",
      {},
      KEYS.map(([heading, keys]) => [element("h3", {}, heading), table(keys, "kbd")]).flat(),
      element("h3", {}, "Words of the filter: all must fit"),
      table(FILTER, "code"),
      element("p", { class: "choices" }, close),
    ),
  );
}
