// The fields of a form that is made from a JSON schema. Each has {node, get(), set(value), mark(isWrong)};
// get() is undefined for a field that is left alone.

import { element } from "./element.js";
import { icon } from "./icons.js";

const WORDS = /^[\w-]+(?:, [\w-]+)* or [\w-]+$/;

// `about`: what is said below it; `list`: the id of a <datalist>.
export function fieldOf(
  name,
  schema,
  { label = name, about = schema.description, list = null, isLong = false } = {},
) {
  const id = `start-${name}`,
    note = about ? `${id}-about` : null;
  const attributes = { id, name, "aria-describedby": note, list };
  const editor = editorOf(schema, attributes, { label, isLong });
  const aboutNode = about && element("p", { id: note, class: "about" }, about);
  const labelled = element(
    editor.isGroup ? "span" : "label",
    editor.isGroup ? { id: `${id}-label`, class: "label" } : { for: id, class: "label" },
    label,
  );
  const parts =
    schema.type === "boolean"
      ? [element("div", { class: "check" }, editor.node, labelled), aboutNode]
      : [labelled, editor.node, aboutNode];
  const node = element("div", { class: `field ${schema.type}` }, ...parts);
  return {
    name,
    node,
    get: editor.get,
    set: editor.set,
    focus: () => editor.first().focus(),
    mark: (isWrong) => editor.first().setAttribute("aria-invalid", String(isWrong)),
  };
}

// The schema of one of `options`, of which the server tells in words what is accepted.
export function schemaOf(accepted) {
  if (WORDS.test(accepted)) return { type: "string", enum: accepted.split(/, | or /), description: null };
  return { type: "string", description: `${accepted[0].toUpperCase()}${accepted.slice(1)}` };
}

function editorOf(schema, attributes, { label, isLong }) {
  if (schema.enum) return choice(schema, attributes);
  if (schema.type === "boolean") return check(attributes);
  if (schema.type === "number" || schema.type === "integer") return number(schema, attributes);
  if (schema.type === "array") return lines(attributes, label, 1);
  if (schema.type === "object") return lines(attributes, label, 2);
  return text(attributes, isLong);
}

function text(attributes, isLong) {
  const node = isLong
    ? element("textarea", {
        ...attributes,
        class: "mono",
        rows: 2,
        spellcheck: "false",
        autocapitalize: "off",
      })
    : element("input", {
        ...attributes,
        type: "text",
        autocomplete: "off",
        spellcheck: "false",
        autocapitalize: "off",
      });
  return {
    node,
    first: () => node,
    get: () => node.value || undefined,
    set: (value) => (node.value = value),
  };
}

function number({ type, minimum, maximum, default: usual }, attributes) {
  const node = element("input", {
    ...attributes,
    type: "number",
    min: minimum,
    max: maximum,
    step: type === "integer" ? 1 : "any",
    placeholder: usual,
  });
  return {
    node,
    first: () => node,
    get: () => (node.value === "" ? undefined : Number(node.value)),
    set: (value) => (node.value = value),
  };
}

function check(attributes) {
  const node = element("input", { ...attributes, type: "checkbox" });
  return {
    node,
    first: () => node,
    get: () => node.checked || undefined,
    set: (value) => (node.checked = Boolean(value)),
  };
}

function choice({ enum: words, default: usual }, attributes) {
  const node = element(
    "select",
    attributes,
    element("option", { value: "" }, usual ? `default: ${usual}` : "default"),
    words.map((word) => element("option", { value: word }, word)),
  );
  return {
    node,
    first: () => node,
    get: () => node.value || undefined,
    set: (value) => (node.value = value ?? ""),
  };
}

// A list of texts, or of names with values: one line each.
function lines({ id, "aria-describedby": note, list }, label, columns) {
  const box = element("div", { class: "lines" });
  const add = element(
    "button",
    {
      type: "button",
      id,
      class: "add",
      "aria-describedby": note,
      onclick: () => newLine().querySelector("input").focus(),
    },
    icon("plus"),
    columns === 2 ? `Add a variable` : "Add a line",
  );
  const node = element("div", { role: "group", "aria-labelledby": `${id}-label` }, box, add);

  function newLine(values = []) {
    const inputs = Array.from({ length: columns }, (_, at) =>
      element("input", {
        type: "text",
        class: "mono",
        autocomplete: "off",
        spellcheck: "false",
        list,
        value: values[at],
        "aria-label": columns === 2 ? `${label}: ${at ? "value" : "name"}` : label,
        placeholder: columns === 2 ? (at ? "value" : "NAME") : null,
      }),
    );
    const line = element(
      "div",
      { class: "entry" },
      ...inputs,
      element(
        "button",
        {
          type: "button",
          "aria-label": `Remove this line of ${label}`,
          onclick: () => {
            line.remove();
            add.focus();
          },
        },
        icon("remove"),
      ),
    );
    box.append(line);
    return line;
  }

  function get() {
    const found = [...box.children]
      .map((line) => [...line.querySelectorAll("input")].map((input) => input.value))
      .filter(([first]) => first);
    if (!found.length) return undefined;
    return columns === 2 ? Object.fromEntries(found) : found.flat();
  }

  function set(value) {
    box.replaceChildren();
    for (const one of Array.isArray(value) ? value.map((each) => [each]) : Object.entries(value ?? {}))
      newLine(one);
  }

  return { node, isGroup: true, first: () => box.querySelector("input") ?? add, get, set };
}
