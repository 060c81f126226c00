// xterm.js 6 writes its rules into three <style> elements and colours of 24 bits into style attributes. A page whose
// CSP forbids inline styles drops both. Rules that a script makes (constructed style sheets, element.style) are allowed:
// what xterm.js asks for is done that way. To be called once, before the first terminal; our own code makes no <style>.
function sheetInPlaceOfStyle(create) {
  const sheet = new CSSStyleSheet();
  const style = create("template"); // a <style>, even an empty one, is a violation as soon as it is in the page
  Object.defineProperty(style, "textContent", { set: (rules) => sheet.replaceSync(rules) });
  style.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(style);
  };
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return style;
}

export function allowStyles() {
  const create = Document.prototype.createElement.bind(document);
  document.createElement = (name, options) => (name === "style" ? sheetInPlaceOfStyle(create) : create(name, options));
  const set = Element.prototype.setAttribute;
  HTMLSpanElement.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else set.call(this, name, value);
  };
}
