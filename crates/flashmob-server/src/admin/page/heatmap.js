// p99 of each node over ten minutes: a row each, columns are seconds, the newest on the right.

import { byId, el, legend, say, table } from "./dom.js";
import { longTime, micros, shortened } from "./format.js";

const ALL_S = 600;
// Times up to which a cell has its colour, as on the terminal.
const STEPS = [1000, 4000, 16000, 63000, 250000, Infinity];
const WHICH = { total: "total", queue: "queue", way: "network", at_node: "node", flash: "flash" };
const SPANS = [[10, "10 s"], [60, "1 min"], [600, "10 min"]];
const AXIS = 20;
const FONT = "12px system-ui, sans-serif";

const [canvas, heatTable] = ["heat", "heat-table"].map(byId);
const pen = canvas.getContext("2d");
let which = "total";
let picture, grid;
// A cell that was pointed at: a node, and the first second of its column.
let cursor = null;

for (const [value, name] of Object.entries(WHICH)) {
	const input = el("input", { type: "radio", name: "heat", value });
	input.checked = value === which;
	input.onchange = () => {
		which = value;
		redraw();
		if (cursor) tell();
	};
	byId("heat-choice").append(el("label", {}, input, el("span", {}, name)));
}
legend(byId("heat-legend"), STEPS.map((us) => (us < Infinity ? micros(us) : "more")), STEPS.map((_, at) => `heat-${at}`));
const setSums = table(heatTable, "Largest p99 of a second", ["node", ...SPANS.map(([, name]) => `last ${name}`)]);

export function drawHeat(now) {
	picture = now;
	redraw();
}

function redraw() {
	if (!picture) return;
	const { live, history } = picture;
	if (cursor && (cursor.second >= live.next_second || cursor.node >= live.nodes.length)) cursor = null;
	const nodes = live.nodes.length;
	const width = canvas.clientWidth;
	pen.font = FONT;
	const names = Math.ceil(Math.min(width * 0.3, 200, 10 + Math.max(0, ...picture.names.map((name) => pen.measureText(name).width))));
	const row = nodes <= 12 ? 22 : nodes <= 24 ? 18 : 14;
	const plot = width - names;
	const step = [1, 2, 5].find((seconds) => ALL_S / seconds <= plot) ?? 10;
	const [columns, height] = [ALL_S / step, nodes * row + AXIS];
	grid = { width, height, names, row, nodes, step, columns, plot, end: live.next_second, cells: history.columns(which, columns, step) };
	const ratio = Math.min(devicePixelRatio, 3);
	Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
	canvas.style.height = `${height}px`;
	pen.scale(ratio, ratio);
	paint();
	if (heatTable.open) drawTable();
}

function paint() {
	const { width, height, names, row, columns, plot, cells } = grid;
	const style = getComputedStyle(canvas);
	const of = (name) => style.getPropertyValue(`--${name}`).trim();
	const colours = STEPS.map((_, at) => of(`heat-${at}`));
	const [ink, faint, field] = ["ink", "dim", "field"].map(of);
	pen.clearRect(0, 0, width, height);
	Object.assign(pen, { font: FONT, textBaseline: "middle", textAlign: "left" });
	const gap = row > 16 ? 2 : 1;
	const x = (column) => names + (column * plot) / columns;
	cells.forEach((cellsOfNode, node) => {
		const y = node * row;
		pen.fillStyle = ink;
		pen.fillText(fitted(picture.names[node], names - 8), 0, y + row / 2, names - 6);
		pen.fillStyle = field;
		pen.fillRect(names, y, plot, row - gap);
		// Neighbours of one colour are one rectangle: no seams, and less to draw.
		let from = 0;
		for (let column = 1; column <= columns; column++) {
			const colour = stepOf(cellsOfNode[from]);
			if (column < columns && stepOf(cellsOfNode[column]) === colour) continue;
			if (colour >= 0) {
				pen.fillStyle = colours[colour];
				pen.fillRect(x(from), y, x(column) - x(from), row - gap);
			}
			from = column;
		}
	});
	pen.fillStyle = faint;
	for (const [share, align, text] of [[0, "left", "10 min ago"], [0.5, "center", "5 min"], [1, "right", "now"]]) {
		pen.textAlign = align;
		pen.fillText(text, names + plot * share, height - AXIS / 2 + 1);
	}
	const column = cursor && columnOf(cursor.second);
	if (!cursor || column < 0) return;
	const wide = Math.max(x(1) - names, 5);
	const left = Math.min(x(column), width - wide - 1);
	for (const [colour, line] of [[of("surface"), 4], [ink, 2]]) {
		Object.assign(pen, { strokeStyle: colour, lineWidth: line });
		pen.strokeRect(left, Math.max(1, cursor.node * row), wide, row - gap);
	}
}

const stepOf = (cell) => (cell ? STEPS.findIndex((most) => cell[1] <= most) : -1);

function fitted(name, room) {
	let text, most = 32;
	do text = shortened(name, most--);
	while (most > 4 && pen.measureText(text).width > room);
	return text;
}

const columnOf = (second) => grid.columns - 1 - Math.floor((grid.end - 1 - second) / grid.step);

function tell() {
	const column = columnOf(cursor.second);
	const cell = grid.cells[cursor.node]?.[column];
	const from = new Date(Date.now() - (grid.end - cursor.second) * 1000).toLocaleTimeString();
	const ago = longTime(grid.end - 1 - cursor.second);
	const figures = cell ? `p50 ${micros(cell[0] ?? 0)}, p99 ${micros(cell[1])}` : "no answers";
	say(byId("heat-said"), `${picture.names[cursor.node]} at ${from} (${ago} before): ${WHICH[which]} ${figures}`);
}

function move(node, column) {
	const within = (value, most) => Math.max(0, Math.min(most, value));
	const before = within(grid.columns - 1 - column, grid.columns - 1);
	cursor = { node: within(node, grid.nodes - 1), second: grid.end - 1 - before * grid.step };
	paint();
	tell();
}

canvas.onpointermove = canvas.onpointerdown = ({ offsetX, offsetY }) => {
	if (!grid || offsetX < grid.names || offsetY >= grid.nodes * grid.row) return;
	move(Math.floor(offsetY / grid.row), Math.floor(((offsetX - grid.names) / grid.plot) * grid.columns));
};

canvas.onkeydown = (event) => {
	if (!grid?.nodes || event.ctrlKey || event.altKey || event.metaKey) return;
	const node = cursor?.node ?? 0;
	const column = cursor ? columnOf(cursor.second) : grid.columns;
	const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [0, -10], PageDown: [0, 10], Home: [0, -1e4], End: [0, 1e4] }[event.key];
	if (!by) return;
	event.preventDefault();
	move(node + by[0], column + by[1]);
};

function drawTable() {
	const { names, history } = picture;
	setSums(names.map((name, number) => [name, ...SPANS.map(([seconds]) => {
		const worst = history.worst(number, which, seconds);
		return worst === null ? "" : micros(worst);
	})]));
}

heatTable.ontoggle = () => picture && drawTable();
new ResizeObserver(redraw).observe(canvas.parentElement);
matchMedia("(prefers-color-scheme: dark)").onchange = redraw;
