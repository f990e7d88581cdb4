// The nodes, in the order of their layout.

import { attribute, byId, el, icon, keyed, say, show, svg } from "./dom.js";
import { bytes, harmless, micros, number, percent, short, shortened } from "./format.js";

const SPARK_S = 60;
// From so many nodes on, cards are small.
const MANY = 17;

const WORDS = { heat: "hot", battery: "battery low", space: "little space" };
const ICONS = { connecting: "waiting", waiting: "waiting", refused: "severe" };

// Its state: an icon, a word, and why it wants attention.
function stateOf(node, number, { findings = [] }) {
	const causes = findings.filter((finding) => finding.node === number && finding.severity !== "note").map(({ cause }) => cause);
	if (node.is_hot) causes.push("heat");
	if (node.is_battery_low) causes.push("battery");
	if (node.is_space_little) causes.push("space");
	const why = [...new Set(causes)].map((cause) => WORDS[cause] ?? harmless(cause).replaceAll("-", " ")).join(", ");
	if (node.state !== "ready") return [ICONS[node.state] ?? "away", harmless(node.state), why];
	return why ? ["attention", "attention", why] : ["good", "ready", ""];
}

const FIGURES = [
	["pieces/s", (node, of) => (of.answered || node.state === "ready" ? short(of.perSecond) : "")],
	["p50", (_, of) => (of.p50 === null ? "" : micros(of.p50))],
	["p99", (_, of) => (of.p99 === null ? "" : micros(of.p99))],
	["queue", (node) => short(node.queue)],
	["air", (_node, _of, share) => (share === null ? "" : percent(share)), "its share of the packets of all nodes"],
	["battery", (node) => (node.battery_percent == null ? "" : `${node.battery_percent}\u00a0%`)],
	["heat", (node) => (node.celsius == null ? "" : `${number(Math.round(node.celsius * 10) / 10)}\u00a0°C`)],
	["free", (node) => (node.free_bytes == null ? "" : bytes(node.free_bytes))],
];

function card() {
	const mark = icon();
	const [word, why, name] = [el("span"), el("span", { class: "why" }), el("p", { class: "name" })];
	const line = svg("polyline", { fill: "none", "vector-effect": "non-scaling-stroke" });
	const spark = svg("svg", { class: "spark", viewBox: `0 0 ${SPARK_S - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" }, line);
	const bolt = icon();
	bolt.set("bolt");
	const charging = el("span", {}, bolt.element, el("span", { class: "unseen" }, " charging"));
	const figures = FIGURES.map(([label, value, title = ""]) => {
		const place = el("span");
		const dd = el("dd", {}, place, ...(label === "battery" ? [charging] : []));
		const box = el("div", { class: `figure of-${label}` }, el("dt", { title }, label), dd);
		return { value, place, box };
	});
	const state = el("p", { class: "node-state" }, mark.element, " ", word, " ", why);
	const element = el("li", { class: "card" }, name, state, spark, el("dl", {}, ...figures.map(({ box }) => box)));
	return {
		element,
		update({ node, number, of, share, names, history, live }) {
			const [kind, text, because] = stateOf(node, number, live);
			mark.set(kind);
			attribute(element, "data-mark", kind);
			say(word, text);
			say(why, because);
			say(name, names[number]);
			attribute(name, "title", harmless(node.name));
			for (const { value, place, box } of figures) {
				const figure = value(node, of, share);
				say(place, figure);
				show(box, figure !== "");
			}
			show(charging, node.charging === true);
			const row = history.perSecond(number, SPARK_S);
			const most = Math.max(1, ...row);
			attribute(line, "points", row.map((count, at) => `${at},${(19 - (18 * count) / most).toFixed(1)}`).join(" "));
		},
	};
}

export function drawCards({ history, live, names, lately, shares }) {
	const place = byId("nodes");
	place.classList.toggle("many", live.nodes.length >= MANY);
	const all = live.nodes.map((node, number) => ({ node, number, of: lately[number], share: shares[number], names, history, live }));
	const volumes = live.volumes.map(({ name }, number) => ({ name: shortened(name, 60), number, all, isOnly: live.volumes.length === 1 }));
	keyed(place, volumes, ({ number }) => number, () => {
		const title = el("h3");
		const list = el("ul", { class: "cards" });
		return {
			element: el("div", {}, title, list),
			update({ name, number: at, all, isOnly }) {
				show(title, !isOnly);
				say(title, name);
				attribute(list, "aria-label", `nodes of ${name}`);
				keyed(list, all.filter(({ node }) => node.volume === at), ({ number }) => number, card);
			},
		};
	});
}
