// What the gateway is asked to change, once whoever looks has agreed to it.

import { byId, say } from "./dom.js";
import { asked } from "./net.js";

const dialog = byId("ask");
const [no, yes] = ["ask-no", "ask-yes"].map(byId);
no.onclick = () => dialog.close();

// Asks; `word` agrees. Then `place` says why it is refused, or what `done` makes of the answer.
export function change(question, word, path, request, place, done) {
	say(byId("ask-text"), question);
	say(yes, word);
	yes.onclick = async () => {
		dialog.close();
		const answer = await asked(place, `volumes/${path}`, request);
		if (answer) say(place, done(answer));
	};
	dialog.showModal();
	no.focus();
}
