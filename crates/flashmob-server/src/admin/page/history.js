// Ten minutes of a gateway's nodes, and sums.

export const LATELY_S = 5;
const AIR_S = 6;
const CAUSES = ["queue", "way", "at_node", "flash"];

export class History {
	last = null;
	slots = [];
	air = [];

	// Another start of the gateway begins anew.
	add(report, now) {
		if (this.last?.start !== report.start) {
			this.slots = [];
			this.air = [];
		}
		const end = report.next_second;
		let known = this.slots.at(-1)?.end ?? 0;
		for (const slot of report.slots) {
			slot.end = slot.second + slot.seconds;
			if (slot.end > end || slot.second < known) continue;
			slot.place = new Map(slot.node.map((node, at) => [node, at]));
			slot.tails = {};
			this.slots.push(slot);
			known = slot.end;
		}
		const oldest = end - report.kept_seconds;
		this.slots = this.slots.filter((slot) => slot.end > oldest);
		this.last = report;
		this.air.push({ now, segments: report.nodes.map(({ segments }) => segments) });
		while (this.air.length > 1 && now - this.air[0].now > AIR_S * 1000) this.air.shift();
	}

	// The last slots with a node, the newest first, and its place in each.
	*within(seconds, node) {
		const from = this.last.next_second - seconds;
		for (let n = this.slots.length - 1; this.slots[n]?.second >= from; n--) {
			const at = this.slots[n].place.get(node);
			if (at !== undefined) yield [this.slots[n], at];
		}
	}

	lately(node) {
		const step = this.last.slot_seconds;
		const seconds = Math.ceil(LATELY_S / step) * step;
		const sum = { answered: 0, read_here: 0, batches: 0, pieces: 0, reply_frames: 0, bytes_in: 0 };
		const histograms = CAUSES.map(() => new Float64Array(this.last.bounds_us.length + 1));
		let p50 = 0, timed = 0, p99 = null, starved = null;
		for (const [slot, at] of this.within(seconds, node)) {
			for (const name in sum) sum[name] += slot[name][at] ?? 0;
			const here = Math.max(0, slot.answered[at] - slot.read_here[at]);
			timed += here;
			p50 += (slot.p50_us[at] ?? 0) * here;
			p99 = larger(p99, slot.p99_us[at]);
			starved = larger(starved, slot.starved_permille[at]);
			CAUSES.forEach((cause, n) => {
				const [first, ...counts] = slot[cause][at];
				counts.forEach((count, bucket) => (histograms[n][first + bucket] += count));
			});
		}
		const over = Math.max(1, Math.min(seconds, this.last.next_second));
		const [queue, network, atNode, flashOfAll] = histograms.map((histogram) => this.mean(histogram));
		// A node's report comes after the answers that it is about, and has other gateways' too.
		const flash = Math.min(flashOfAll, atNode);
		return {
			...sum,
			perSecond: sum.answered / over,
			bytesPerSecond: sum.bytes_in / over,
			timedPerSecond: timed / over,
			p50: timed > 0 ? p50 / timed : null,
			p99,
			starved,
			spent: { queue, network, node: atNode - flash, flash },
			total: queue + network + atNode,
		};
	}

	// The mean of a histogram: a bucket counts as the geometric middle of its bounds.
	mean(histogram) {
		const bounds = this.last.bounds_us;
		let total = 0, sum = 0;
		histogram.forEach((count, bucket) => {
			const to = bounds[bucket] ?? bounds.at(-1) * 1.6;
			const from = bucket ? bounds[bucket - 1] : to / 4;
			total += count;
			sum += count * Math.sqrt(from * to);
		});
		return total ? sum / total : 0;
	}

	// [p50, p99] of a node in a slot; those of a cause are upper bounds of buckets.
	tails(slot, node, cause) {
		const at = slot.place.get(node);
		if (at === undefined) return null;
		if (cause === "total") return slot.p99_us[at] === null ? null : [slot.p50_us[at], slot.p99_us[at]];
		const known = (slot.tails[cause] ??= []);
		return (known[at] ??= tailsOf(slot[cause][at], this.last.bounds_us));
	}

	// The largest [p50, p99] of each node in columns of so many seconds; the last ends now.
	columns(cause, columns, step) {
		const end = this.last.next_second;
		const columnOf = (second) => columns - 1 - Math.floor((end - 1 - second) / step);
		const rows = this.last.nodes.map(() => new Array(columns).fill(null));
		for (const slot of this.slots) {
			for (const node of slot.place.keys()) {
				const tails = rows[node] && this.tails(slot, node, cause);
				if (!tails) continue;
				for (let column = Math.max(0, columnOf(slot.second)); column <= columnOf(slot.end - 1); column++) {
					const cell = rows[node][column];
					if (!cell || cell[1] < tails[1]) rows[node][column] = tails;
				}
			}
		}
		return rows;
	}

	worst(node, cause, seconds) {
		let worst = null;
		for (const [slot] of this.within(seconds, node)) worst = larger(worst, this.tails(slot, node, cause)?.[1]);
		return worst;
	}

	packets() {
		const [first, last] = [this.air[0], this.air.at(-1)];
		const seconds = first ? (last.now - first.now) / 1000 : 0;
		return this.last.nodes.map((_, node) => {
			const [from, to] = [first?.segments[node], last?.segments[node]];
			return seconds > 0 && to >= from ? (to - from) / seconds : null;
		});
	}

	// Each node's part of all packets; of bytes without TCP.
	shares(lately) {
		let parts = this.packets();
		if (parts.every((part) => part === null)) parts = lately.map((node) => node.bytesPerSecond);
		const all = parts.reduce((sum, part) => sum + (part ?? 0), 0);
		return parts.map((part) => (all > 0 && part !== null ? part / all : null));
	}

	perSecond(node, seconds) {
		const row = new Array(seconds).fill(0);
		for (const [slot, at] of this.within(seconds, node)) {
			const first = seconds - (this.last.next_second - slot.second);
			row.fill(slot.answered[at] / slot.seconds, first, first + slot.seconds);
		}
		return row;
	}
}

const larger = (a, b) => (b == null ? a : a === null || b > a ? b : a);

// A histogram is the number of its first bucket, and the counts from there on.
function tailsOf([first, ...counts], bounds) {
	if (!counts.length) return null;
	const total = counts.reduce((sum, count) => sum + count);
	const at = (part) => {
		let left = Math.ceil(part * total), n = 0;
		while ((left -= counts[n]) > 0) n++;
		return bounds[first + n] ?? bounds.at(-1) * 1.6;
	};
	return [at(0.5), at(0.99)];
}
