'use strict';
// Timelines: + and - zoom, arrows move, 0 shows all; with the pointer: drag to move, Ctrl and wheel to zoom, double click to zoom in.
for (const figure of document.querySelectorAll('svg.timeline')) {
  const left = Number(figure.dataset.left), plot = Number(figure.dataset.plot), all = Number(figure.dataset.us);
  const marks = figure.querySelector('.marks'), ticks = figure.querySelector('.ticks');
  const height = figure.viewBox.baseVal.height, tag = 'http://www.w3.org/2000/svg';
  let begin = 0, span = all;
  const step = rough => {
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= rough * 0.999);
  };
  const add = (name, values, text) => {
    const element = document.createElementNS(tag, name);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    ticks.append(element);
  };
  const show = (from, length) => {
    span = Math.min(all, Math.max(all / 1e5, length));
    begin = Math.min(all - span, Math.max(0, from));
    const scale = plot / span;
    marks.setAttribute('transform', `translate(${left - begin * scale} 0) scale(${scale} 1)`);
    ticks.replaceChildren();
    const every = step(span / 6), digits = Math.max(0, -Math.floor(Math.log10(every) + 1e-9) + (every * 10 ** -Math.floor(Math.log10(every)) === 2.5 ? 1 : 0));
    for (let at = Math.ceil(begin / every) * every; at <= begin + span * 1.0001; at += every) {
      const x = left + (at - begin) * scale;
      add('path', {d: `M${x} 22V${height - 22}`, stroke: 'var(--grid)'});
      const label = at.toLocaleString('en', {minimumFractionDigits: 0, maximumFractionDigits: digits});
      add('text', {x, y: 14, 'font-size': 12, 'text-anchor': x > left + plot - 28 ? 'end' : 'middle', fill: 'var(--muted)'}, label);
    }
  };
  const zoom = (factor, at = begin + span / 2) => show(at - (at - begin) * factor, span * factor);
  const time = event => {
    const box = figure.getBoundingClientRect();
    return begin + ((event.clientX - box.left) * figure.viewBox.baseVal.width / box.width - left) / plot * span;
  };
  const keys = {'+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), ArrowLeft: () => show(begin - span / 5, span),
    ArrowRight: () => show(begin + span / 5, span), Home: () => show(0, span), End: () => show(all - span, span), 0: () => show(0, all)};
  figure.addEventListener('keydown', event => {
    if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    keys[event.key]();
    event.preventDefault();
  });
  figure.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event));
    event.preventDefault();
  }, {passive: false});
  figure.addEventListener('dblclick', event => zoom(0.4, time(event)));
  let grip = null;
  figure.addEventListener('pointerdown', event => { if (event.pointerType === 'mouse' && span < all) { grip = time(event); figure.setPointerCapture(event.pointerId); } });
  figure.addEventListener('pointermove', event => { if (grip !== null) show(begin + grip - time(event), span); });
  for (const end of ['pointerup', 'pointercancel']) figure.addEventListener(end, () => { grip = null; });
  const bar = document.createElement('p'), told = document.createElement('output');
  bar.className = 'controls';
  for (const [name, what, does] of [['+', 'Zoom in', keys['+']], ['−', 'Zoom out', keys['-']], ['◀', 'Earlier', keys.ArrowLeft], ['▶', 'Later', keys.ArrowRight], ['all', 'Show all', keys[0]]]) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = name;
    button.setAttribute('aria-label', what);
    button.addEventListener('click', does);
    bar.append(button);
  }
  told.textContent = 'Point at a mark to see what it is. Keys: + − ← → 0; Ctrl and wheel zoom, dragging moves.';
  bar.append(told);
  figure.closest('.scroll').before(bar);
  figure.addEventListener('pointerover', event => {
    const title = event.target.parentNode === marks ? event.target.querySelector('title') : null;
    if (title) told.textContent = title.textContent;
  });
}
