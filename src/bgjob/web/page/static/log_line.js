// One line of a log as a node: when it came, of which stream it is, and its text.

import { marked, spans, styled } from "./ansi.js";
import { element } from "./element.js";
import { bytes, clock, count, moment } from "./words.js";

export function drawnLine(line, address) {
  const isErr = line.stream === "stderr", parts = styled(line.text);
  return element("div", { class: isErr ? "logline err" : "logline" },
    element("a", { class: "at", href: address(line.at), tabindex: "-1", title: `${moment(line.time)}: a link to this line` }, clock(line.time)),
    isErr && element("span", { class: "stream", title: "stderr" }, "err"),
    line.rest && note("the line goes on: "),
    line.skipped && note(`after ${bytes(line.skipped)} of the same line: `),
    spans(line.marks ? marked(parts, line.marks) : parts),
    isCut(line) && note(` … of a line of ${bytes(line.size)}`));
}

export const drawnGap = ({ stream, bytes: size }) =>
  element("div", { class: "gap" }, `${count(size, "byte")} of ${stream} dropped here: beyond what is kept of a job's output`);

const note = (words) => element("span", { class: "cut" }, words);

const isCut = (line) => line.size && !line.skipped;
