// The node whose pieces take longest on average, or another one, and where that time goes.

import { byId, el, keyed, legend, part, say, show, table } from "./dom.js";
import { micros, percent } from "./format.js";
import { LATELY_S } from "./history.js";
import { drawFindings } from "./state.js";

const WHERE = {
	queue: "waits at the gateway to be sent",
	network: "way to the node and back",
	node: "at the node, without its flash",
	flash: "in the node's store, mostly flash",
};
const PARTS = Object.keys(WHERE);

const pick = byId("slow-node");
const bar = byId("slow-bar");
const rects = PARTS.map(part);
bar.append(...rects.map(({ element }) => element));
const parts = legend(byId("slow-legend"), PARTS.map((name) => [name, name]));
const setTimes = table(byId("slow-table"), "Mean time of a piece, by where it goes", ["part", "time", "share", "what"]);
let picture = null;
pick.addEventListener("change", () => picture && drawSlowest(picture));

export function drawSlowest(now) {
	picture = now;
	const { live, names, lately } = now;
	let slowest = -1;
	lately.forEach(({ total }, node) => {
		if (total > 0 && (slowest < 0 || total > lately[slowest].total)) slowest = node;
	});
	const options = [{ value: "", text: "the slowest" }, ...names.map((text, at) => ({ value: String(at), text }))];
	keyed(pick, options, ({ value }) => value, ({ value }) => {
		const element = el("option", { value });
		return { element, update: ({ text }) => say(element, text) };
	});
	const node = pick.value === "" ? slowest : Number(pick.value);
	const of = lately[node];
	const is = Boolean(of && of.total > 0);
	for (const id of ["slow-legend", "slow-table"]) show(byId(id), is);
	drawFindings(byId("slow-remedies"), (live.findings ?? []).filter((finding) => finding.node === node), live, false);
	const name = names[node];
	if (!is) {
		rects.forEach((rect) => rect.set(0, 0));
		return say(byId("slow-text"), `${of ? name + ": n" : "N"}o answers in the last ${LATELY_S} s.`);
	}
	const largest = PARTS.reduce((a, b) => (of.spent[b] > of.spent[a] ? b : a));
	const starved = of.starved >= 100 ? ` Its loop waited for a processor for ${percent(of.starved / 1000)} of the time.` : "";
	say(byId("slow-text"), `${pick.value === "" ? "Slowest: " : ""}${name}, ${micros(of.total)} a piece, most of it in ${largest}.${starved}`);
	let from = 0;
	PARTS.forEach((name, at) => {
		const share = of.spent[name] / of.total;
		rects[at].set(from, share);
		from += share;
		say(parts[at], `${name} ${percent(share)}`);
	});
	setTimes(PARTS.map((name) => ({
		key: name,
		cells: [name, micros(of.spent[name]), percent(of.spent[name] / of.total), WHERE[name]],
	})));
}
