// Numbers and names as the terminal writes them, with an unbreakable space before units.

const NBSP = "\u00a0";

// Three significant digits, or all that are whole.
export function number(value) {
	const size = Math.abs(value);
	if (!Number.isFinite(value)) return "–";
	if (size >= 100 || size === 0) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
	if (size < 1e-4) return value.toExponential(1);
	return String(Number(value.toPrecision(3)));
}

function scaled(value, step, units) {
	let unit = 0;
	while (Math.abs(value) >= step - 0.5 && unit + 1 < units.length) {
		value /= step;
		unit++;
	}
	return number(value) + units[unit];
}

export const short = (value) => (Math.abs(value) < 9999.5 ? number(value) : scaled(value, 1e3, ["", "k", "M", "G", "T", "P"]));

export const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].map((unit) => NBSP + unit));

export function micros(us) {
	if (us >= 999_500 || us === 0) return number(us / 1e6) + NBSP + "s";
	return scaled(us * 1e3, 1e3, ["ns", "µs", "ms"].map((unit) => NBSP + unit));
}

export function percent(fraction) {
	const value = 100 * fraction;
	return number(value < 10 ? Math.round(10 * value) / 10 : Math.round(value)) + NBSP + "%";
}

export function longTime(seconds) {
	const s = Math.max(0, Math.floor(seconds)) || 0;
	const [large, unit, small, smaller] = s < 3600 ? [60, "min", 1, "s"] : s < 86400 ? [3600, "h", 60, "min"] : [86400, "d", 3600, "h"];
	const rest = Math.floor((s % large) / small) + NBSP + smaller;
	return s < large ? rest : Math.floor(s / large) + NBSP + unit + " " + rest;
}

// Names are anybody's text: nothing of it may turn the direction of writing or hide.
export const harmless = (text) => String(text ?? "").replace(/[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu, "\ufffd");

// Both ends of a name are kept: the start is often the same for all.
export function shortened(text, most) {
	const all = [...harmless(text)];
	if (all.length <= most) return all.join("");
	const head = Math.ceil((most - 1) / 2);
	return all.slice(0, head).join("") + "…" + all.slice(all.length - (most - 1 - head)).join("");
}

// Names of nodes, without the port if all have the same.
export function brief(nodes) {
	const port = /(:\d+)?$/.exec(nodes[0]?.name ?? "")[0];
	const isCommon = nodes.every(({ name }) => name.endsWith(port));
	return nodes.map(({ name }, at) => shortened(isCommon ? name.slice(0, name.length - port.length) : name, 40) || `node ${at}`);
}

export const plural = (n, one, many = one + "s") => `${short(n)} ${n === 1 ? one : many}`;
