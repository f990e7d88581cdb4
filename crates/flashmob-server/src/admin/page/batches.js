// Pieces in a frame, and packets for a request.

import { byId, table } from "./dom.js";
import { number } from "./format.js";

const setFigures = table(byId("batches"), "Frames and packets of each node", ["node", "pieces in a frame sent", "answers in a frame received", "packets for a piece"]);

export function drawBatches({ live, names, lately, packets }) {
	const over = (a, b) => (b > 0 && a != null ? a / b : null);
	const rows = live.nodes.map((node, at) => {
		const of = lately[at];
		const sentAnswers = of.answered - of.read_here;
		return [over(of.pieces, of.batches), over(sentAnswers, of.reply_frames), over(packets[at], of.timedPerSecond)];
	});
	const most = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column] ?? 0), 1e-9));
	setFigures(rows.map((row, at) => [names[at], ...row.map((value, column) => ({
		text: value === null ? "" : number(value),
		share: (value ?? 0) / most[column],
	}))]));
}
