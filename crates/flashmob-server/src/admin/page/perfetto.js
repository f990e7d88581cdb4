// Chrome's trace events, for Perfetto: devices are processes, threads are lanes without overlaps.

const GATEWAY = 1;

export function perfetto(report, spansOf) {
	const events = [];
	const lanes = {};
	const named = (what, pid, tid, name) => events.push({ ph: "M", name: `${what}_name`, pid, tid, args: { name } });
	named("process", GATEWAY, 0, "gateway");
	report.nodes.forEach((node, at) => named("process", GATEWAY + 1 + at, 0, `${node.name} (${node.volume})`));

	// The first lane that is free by then.
	const lane = (pid, name, from, to) => {
		const key = `${pid} ${name}`;
		const ends = (lanes[key] ??= []);
		let at = ends.findIndex((end) => end <= from);
		if (at < 0) at = ends.length;
		const tid = Object.keys(lanes).indexOf(key) * 1000 + at + 1;
		if (ends[at] === undefined) named("thread", pid, tid, `${name} ${at + 1}`);
		ends[at] = to;
		return tid;
	};
	const event = (pid, tid, name, from, to, args) => events.push({ ph: "X", cat: "flashmob", name, pid, tid, ts: from / 1000, dur: (to - from) / 1000, args });

	for (const sample of report.samples) {
		const { number, op, volume, offset_bytes, len_bytes, received_ns: began, replied_ns: ended, failure } = sample;
		event(GATEWAY, lane(GATEWAY, "requests", began, ended), op, began, ended, { number, volume, offset_bytes, len_bytes, failure });
		const spans = spansOf(sample);
		for (const piece of new Set(spans.map((span) => span.piece))) {
			for (const isNode of [false, true]) {
				const of = spans.filter((span) => span.piece === piece && isNode === ["node", "flash"].includes(span.kind));
				if (!of.length) continue;
				const [from, to] = [Math.min(...of.map((span) => span.from)), Math.max(...of.map((span) => span.to))];
				const pid = isNode ? GATEWAY + 1 + of[0].node : GATEWAY;
				const tid = lane(pid, isNode ? "work" : "pieces", from, to);
				for (const span of of) event(pid, tid, span.name, span.from, span.to, { number, what: span.what });
			}
		}
	}
	return { displayTimeUnit: "ns", traceEvents: events };
}
