// Pauses, drains and measures a node, for whoever may; what was measured last is for everybody.

import { change } from "./change.js";
import { byId, choices, say, show } from "./dom.js";
import { bytes, harmless, longTime, micros, plural, short } from "./format.js";

const ASPECTS = { flash: "flash of", way: "way to" };
const [pick, pause, drain, said] = ["action-node", "action-pause", "action-drain", "action-said"].map(byId);

const nodesOf = (live, at) => live.nodes.filter(({ volume }) => volume === at);

export function drawActions(picture) {
	const { live, names } = picture;
	choices(pick, names.map((name, at) => [at, name]));
	const node = live.nodes[pick.value];
	const may = live.may_change === true && node !== undefined;
	show(byId("actions"), may);
	show(byId("measured"), may || live.measurement !== undefined);
	if (live.measurement) drawMeasurement(picture, live.measurement);
	if (!may) return;

	const volume = live.volumes[node.volume];
	const name = names[pick.value];
	const on = (button, path, more, question, done) => {
		const request = { volume: volume.name, node: nodesOf(live, node.volume).indexOf(node), ...more };
		button.onclick = () => change(question, button.textContent, path, request, said, done);
	};
	const resume = node.is_paused === true;
	show(pause, volume.copies !== undefined);
	say(pause, resume ? "Use again" : "Pause");
	on(pause, "pause", { resume }, resume ? `Use ${name} again? What it has missed is copied to it.` : `Pause ${name}? Nothing is read or written there until it is used again.`,
		({ is_paused: is }) => `${name} is ${is ? "paused" : "used again"}.`);
	const cancel = node.is_leaving === true;
	show(drain, volume.copies !== undefined);
	say(drain, cancel ? "Stop draining" : "Drain");
	on(drain, "move", { cancel }, cancel ? `Let ${name} have copies again?` : `Move all copies away from ${name}? It can be switched off then.`,
		({ copies }) => (cancel ? `${name} may have copies again.` : `${plural(copies, "copy", "copies")} to be moved away from ${name}.`));
	for (const aspect in ASPECTS) {
		on(byId(`action-${aspect}`), "measure", { aspect }, `Measure the ${ASPECTS[aspect]} ${name}? For some seconds requests to it take longer.`, () => "");
	}
	pick.onchange = () => {
		say(said, "");
		drawActions(picture);
	};
}

function drawMeasurement({ live, names }, { volume, node, aspect, begun_seconds_ago: ago, ends_in_seconds: left, trouble, steps, empty_blocks: empty }) {
	const what = `The ${ASPECTS[aspect]} ${names[live.nodes.indexOf(nodesOf(live, volume)[node])]}`;
	const found = steps.map((step) => `${step.outstanding} at a time, ${short(step.per_second)} reads of ${bytes(step.request_bytes)} a second`
		+ ` (${bytes(step.per_second * step.request_bytes)}/s), half of them within ${micros(step.p50_us)}, 99 % within ${micros(step.p99_us)}`);
	if (empty) found.push(`${plural(empty, "empty block")} not counted`);
	const [text, when] = left === undefined
		? [`: ${harmless(trouble) || found.join("; ")}.`, `Begun ${longTime(ago)} ago.`]
		: [" is being measured.", `${longTime(left + 1)} left.`];
	say(byId("measured-what"), what + text);
	say(byId("measured-when"), when);
}
