// Ways of requests to their nodes and back, as the gateway followed them.

import { byId, choices, el, legend, part, say, show, svg, table } from "./dom.js";
import { bytes, harmless, micros, number, shortened } from "./format.js";
import { asked } from "./net.js";
import { perfetto } from "./perfetto.js";

// Each stage, from the end of the one before: name, what happens, which part of the time, end.
const STAGES = [
	["cut", "received, until it is cut into pieces", "gateway", "queued_ns"],
	["queued", "waits for a batch", "gateway", "batched_ns"],
	["batched", "in the batch, until it is sent", "gateway", "sent_ns"],
	["out", "way to the node", "network", "node_received_ns"],
	["scheduled", "at the node, until it is scheduled", "node", "scheduled_ns"],
	["waiting", "waits for the flash", "node", "flash_start_ns"],
	["flash", "in the node's store", "flash", "flash_done_ns"],
	["replied", "until the node's answer is ready", "node", "node_replied_ns"],
	["back", "way back to the gateway", "network", "returned_ns"],
	["joined", "until the answer is made", "gateway", "replied_ns"],
];

const pick = byId("trace-pick");
const setStages = table(byId("trace-table"), "Stages of the request", ["stage", "time", "when", "what"]);
legend(byId("trace-legend"), ["gateway", "network", "node", "flash"]);
let report;

// {name, what, kind, from, to, node} of a request, piece by piece.
function spans(sample) {
	const all = [];
	const span = (piece, name, what, kind, from, to, node) => {
		// A node's times have an error: none may seem to end before it began.
		if (from != null && to != null) all.push({ piece, name, what, kind, from, to: Math.max(from, to), node });
	};
	const here = sample.at_once;
	if (here) span(0, "memory", "answered in the gateway's process", "flash", here.started_ns, here.finished_ns, here.node);
	sample.pieces.forEach((piece, at) => {
		const times = { ...sample, ...piece, ...piece.way };
		let from = sample.received_ns;
		for (const [name, what, kind, end] of STAGES) {
			const told = name === "flash" && piece.way?.answered === "at_once" ? ["memory", "answered from the node's memory"] : [name, what];
			span(at, ...told, kind, from, times[end], piece.node);
			from = times[end];
		}
		if (!piece.way) span(at, "unanswered", harmless(piece.failure) || "no answer", "network", piece.batched_ns, sample.replied_ns, piece.node);
	});
	if (!all.length) span(0, "answer", "answered by the gateway alone", "gateway", sample.received_ns, sample.replied_ns);
	return all;
}

pick.onchange = draw;

byId("trace-take").onclick = async () => {
	const said = byId("trace-text");
	const answer = await asked(said, "trace");
	if (!answer) return;
	report = answer;
	const { samples, counters } = report;
	show(byId("trace-out"), samples.length > 0);
	const which = counters.one_in ? `One request in ${number(counters.one_in)} is followed` : "No requests are followed: the configuration says so";
	say(said, `${which}; ${samples.length ? `the last ${number(samples.length)} are here, the newest first` : "none has ended yet"}.`);
	choices(pick, samples.toReversed().map((sample) => {
		const where = nameOf(sample.pieces[0]?.node ?? sample.at_once?.node);
		return [sample.number, `${sample.number}: ${harmless(sample.op)} ${bytes(sample.len_bytes)}, ${took(sample.replied_ns - sample.received_ns)}, ${where}`];
	}));
	pick.selectedIndex = 0;
	draw();
};

const took = (ns) => micros(ns / 1000);
const nameOf = (node) => shortened(report.nodes[node]?.name ?? "gateway", 32);

function draw() {
	const sample = report.samples.at(-1 - pick.selectedIndex);
	if (!sample) return;
	const all = spans(sample);
	const from = sample.received_ns;
	const whole = Math.max(from + 1, sample.replied_ns, ...all.map(({ to }) => to)) - from;
	const bar = ({ from: begun, to, kind }) => ({ share: Math.max(0.005, (to - begun) / whole), from: (begun - from) / whole, kind });
	const mark = ({ piece }) => (pieces.length > 1 ? `${piece + 1}: ` : "");
	const pieces = [...new Set(all.map((span) => span.piece))];
	byId("trace-lanes").replaceChildren(...pieces.map((piece) => {
		const of = all.filter((span) => span.piece === piece);
		const rects = of.map((span) => {
			const rect = svg("rect", {}, svg("title", {}, `${span.name} ${took(span.to - span.from)}`));
			part(rect, bar(span));
			return rect;
		});
		const label = [mark(of[0]) + nameOf(of[0].node), sample.pieces[piece]?.failure ?? []].flat().map(harmless).join(": ");
		return el("figure", {}, el("figcaption", {}, label), svg("svg", { class: "shares", role: "img", "aria-label": `time of ${label}` }, ...rects));
	}));
	setStages(all.map((span) => [
		mark(span) + span.name,
		took(span.to - span.from),
		{ text: "+" + took(span.from - from), ...bar(span) },
		span.what,
	]));
}

byId("trace-save").onclick = () => {
	const link = el("a", { download: "flashmob-trace.json" });
	link.href = URL.createObjectURL(new Blob([JSON.stringify(perfetto(report, spans))], { type: "application/json" }));
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};
