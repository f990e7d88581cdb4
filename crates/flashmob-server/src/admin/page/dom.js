// Elements are made once, then changed: focus and selection survive.

export const byId = (id) => document.getElementById(id);

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function fill(element, attributes, children) {
	for (const name in attributes) element.setAttribute(name, attributes[name]);
	element.append(...children);
	return element;
}

export function say(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

export function attribute(element, name, value) {
	if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function show(element, is) {
	if (element.hidden === is) element.hidden = !is;
}

// The children of `parent` become those of `items`, by key; `make` gives an element and what updates it.
export function keyed(parent, items, key, make) {
	const old = parent.entries ?? new Map();
	const now = new Map();
	let before = null;
	for (const item of items) {
		const name = key(item);
		if (now.has(name)) continue;
		const entry = old.get(name) ?? make(item);
		now.set(name, entry);
		const [element, update] = entry;
		update(item);
		const place = before ? before.nextSibling : parent.firstChild;
		if (element !== place) parent.insertBefore(element, place);
		before = element;
	}
	for (const [name, [element]] of old) if (!now.has(name)) element.remove();
	parent.entries = now;
}

export function choices(pick, entries) {
	keyed(pick, entries, ([value]) => value, ([value]) => {
		const element = el("option", { value });
		return [element, ([, text]) => say(element, text)];
	});
}

// Shapes differ as well as colours.
const SHAPES = {
	good: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.6 4.5L7 11 4.3 8.3l1-1L7 8.9l3.5-4.3z",
	attention: "M8 1 .6 14.5h14.8zM7.2 6h1.6v4.5H7.2zm0 5.5h1.6V13H7.2z",
	severe: "M5 1h6l4 4v6l-4 4H5l-4-4V5zm-.1 5L6.9 8l-2 2 1.1 1.1 2-2 2 2 1.1-1.1-2-2 2-2L10 4.9l-2 2-2-2z",
	note: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM7.2 4h1.6v1.6H7.2zm0 3h1.6v5H7.2z",
	waiting: "M3 1h10v2L9.5 8l3.5 5v2H3v-2l3.5-5L3 3zm2.2 2L8 6.8 10.8 3z",
	bolt: "M9.5 0 2 9.5h4.5L5.5 16 13 6.5H8.5z",
	away: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2a5 5 0 1 1 0 10A5 5 0 0 1 8 3z",
};

export const icon = () => svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "icon" }, svg("path"));

export function mark(icon, name) {
	attribute(icon.firstChild, "d", SHAPES[name] ?? SHAPES.away);
	attribute(icon, "data-mark", name);
}

// Puts a table into `parent`. Returns what sets its rows: of texts, or {text, share} for a bar.
export function table(parent, name, columns) {
	const body = el("tbody");
	const head = el("tr", {}, ...columns.map((text) => el("th", { scope: "col" }, text)));
	parent.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, el("table", {}, el("thead", {}, head), body)));
	return (rows) => keyed(body, rows.entries(), ([at]) => at, ([, first]) => {
		const cells = first.map((_, at) => cell(at ? el("td") : el("th", { scope: "row" })));
		return [el("tr", {}, ...cells.map(([element]) => element)), ([, values]) => cells.forEach(([, set], at) => set(values[at]))];
	});
}

function cell(element) {
	const text = el("span");
	element.append(text);
	let bar;
	return [element, (value) => {
		say(text, value.text ?? value);
		if (value.share === undefined) return;
		if (!bar) {
			bar = svg("rect");
			element.append(svg("svg", { class: "cell-bar", "aria-hidden": "true" }, bar));
		}
		part(bar, value);
	}];
}

// A part of a bar: how much it is and where it begins, of 1.
export function part(rect, { share, from = 0, kind = "network" }) {
	const percent = (value) => `${(100 * value).toFixed(2)}%`;
	attribute(rect, "x", percent(from));
	attribute(rect, "width", percent(share));
	rect.style.fill = `var(--${kind})`;
}

export function legend(list, names, colours = names) {
	return names.map((name, at) => {
		const [swatch, text] = [el("i"), el("span", {}, name)];
		swatch.style.background = `var(--${colours[at]})`;
		list.append(el("li", {}, swatch, text));
		return text;
	});
}
