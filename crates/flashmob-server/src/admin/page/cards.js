// The nodes, in the order of their layout.

import { attribute, byId, el, icon, keyed, mark, say, show, svg } from "./dom.js";
import { bytes, harmless, micros, number, percent, short, shortened } from "./format.js";
import { isThere } from "./state.js";

const SPARK_S = 60;
// So many have small cards.
const MANY = 17;

const WORDS = { heat: "hot", battery: "battery low", space: "little space", device: "device fails" };
const ICONS = { connecting: "waiting", waiting: "waiting", refused: "severe" };

// Its state: an icon, a word, and why it wants attention.
function stateOf(node, number, { findings = [] }) {
	const causes = findings.filter((finding) => finding.node === number && finding.severity !== "note").map(({ cause }) => cause);
	if (node.is_hot) causes.push("heat");
	if (node.is_battery_low) causes.push("battery");
	if (node.is_space_little) causes.push("space");
	const why = [...new Set(causes)].map((cause) => WORDS[cause] ?? harmless(cause).replaceAll("-", " ")).join(", ");
	if (node.is_paused) return ["waiting", "paused", why];
	if (node.is_leaving && node.state === "ready") return ["waiting", node.is_drained ? "drained" : "draining", why];
	if (node.state !== "ready") return [ICONS[node.state] ?? "away", harmless(node.state), why];
	return why ? ["attention", "attention", why] : ["good", "ready", ""];
}

const FIGURES = [
	["pieces/s", short, (node, of) => (of.answered || node.state === "ready" ? of.perSecond : null)],
	["p50", micros, (_, of) => of.p50],
	["p99", micros, (_, of) => of.p99],
	["queue", short, (node) => node.queue],
	["air", percent, (_node, _of, share) => share, "its share of the packets of all nodes"],
	["battery", (value) => `${value}\u00a0%`, (node) => node.battery_percent],
	["heat", (value) => `${number(Math.round(value * 10) / 10)}\u00a0°C`, (node) => node.celsius],
	["free", bytes, (node) => node.free_bytes],
];

function card() {
	const sign = icon();
	const [word, why, name] = [el("span"), el("span", { class: "why" }), el("p", { class: "name" })];
	const line = svg("polyline", { fill: "none", "vector-effect": "non-scaling-stroke" });
	const spark = svg("svg", { class: "spark", viewBox: `0 0 ${SPARK_S - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" }, line);
	const bolt = icon();
	mark(bolt, "bolt");
	const charging = el("span", {}, bolt, el("span", { class: "unseen" }, " charging"));
	const figures = FIGURES.map(([label, format, value, title = ""]) => {
		const place = el("span");
		const dd = el("dd", {}, place, ...(label === "battery" ? [charging] : []));
		const box = el("div", { class: `figure of-${label}` }, el("dt", { title }, label), dd);
		return { format, value, place, box };
	});
	const state = el("p", { class: "node-state" }, sign, " ", word, " ", why);
	const element = el("li", { class: "card" }, name, state, spark, el("dl", {}, ...figures.map(({ box }) => box)));
	return [element, ({ node, number, of, share, names, history, live }) => {
		const [kind, text, because] = stateOf(node, number, live);
		mark(sign, kind);
		attribute(element, "data-mark", kind);
		say(word, text);
		say(why, because);
		say(name, names[number]);
		attribute(name, "title", harmless(node.name));
		for (const { format, value, place, box } of figures) {
			const figure = value(node, of, share);
			show(box, figure != null);
			if (figure != null) say(place, format(figure));
		}
		show(charging, node.charging === true);
		const row = history.perSecond(number, SPARK_S);
		const most = Math.max(1, ...row);
		attribute(line, "points", row.map((count, at) => `${at},${(19 - (18 * count) / most).toFixed(1)}`).join(" "));
	}];
}

export function drawCards(now) {
	const { live, lately, shares } = now;
	const place = byId("nodes");
	place.classList.toggle("many", live.nodes.length >= MANY);
	const all = live.nodes.map((node, number) => ({ ...now, node, number, of: lately[number], share: shares[number] }));
	const volumes = live.volumes.map(({ name }, at) => [at, live.volumes.length > 1, shortened(name, 60), all.filter(({ node }) => node.volume === at && isThere(node))]);
	keyed(place, volumes, ([at]) => at, () => {
		const title = el("h3");
		const list = el("ul", { class: "cards" });
		return [el("div", {}, title, list), ([, isTold, name, nodes]) => {
			show(title, isTold);
			say(title, name);
			attribute(list, "aria-label", `nodes of ${name}`);
			keyed(list, nodes, ({ number }) => number, card);
		}];
	});
}
