// The console works without this; with it, pages are live, times are local, and keys work.
(() => {
  'use strict';
  const $ = (q, from) => (from || document).querySelector(q);
  const all = (q, from) => Array.from((from || document).querySelectorAll(q));

  const pad = n => String(n).padStart(2, '0');
  function times(from) {
    for (const t of all('time[datetime]', from)) {
      const at = new Date(t.dateTime);
      if (isNaN(at) || t.dataset.local) continue;
      const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
      t.title = t.textContent;
      t.dataset.local = '1';
      const utc = document.createElement('small');
      utc.textContent = ` ${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())} UTC`;
      t.textContent = `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
      if (at.getTimezoneOffset() !== 0) t.append(utc); else t.append(' UTC');
    }
  }

  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function charts(from) {
    for (const c of all('[data-chart]', from)) {
      if (c.dataset.drawn || !window.uPlot) continue;
      c.dataset.drawn = '1';
      const spec = JSON.parse(c.dataset.chart);
      const clock = (s, fine) => { const t = new Date(s * 1000); return [t.getHours(), t.getMinutes()].concat(fine ? t.getSeconds() : []).map(pad).join(':'); };
      const figure = v => v == null ? '–' : (v >= 100 ? Math.round(v) : Number(v.toPrecision(3))).toLocaleString();
      const latest = u => { if (u.cursor.idx == null) u.setLegend({idx: u.data[0].length - 1}); };
      const axis = {stroke: css('--dim'), grid: {stroke: css('--line'), width: 1}, ticks: {stroke: css('--line')}};
      const colors = ['--c1', '--c2', '--c3', '--c4'];
      new uPlot({
        width: c.clientWidth, height: 180, cursor: {y: false},
        hooks: {ready: [latest], setCursor: [latest]},
        series: [{label: '', value: (u, v) => v == null ? '' : clock(v, true)}].concat(spec.names.map((n, i) => ({label: n, stroke: css(colors[i % 4]), width: 1.5, points: {show: false}, value: (u, v) => figure(v)}))),
        scales: {y: {range: (u, least, most) => [0, Math.max(most || 0, 1) * 1.05]}},
        axes: [Object.assign({space: 70, values: (u, at, i, space, step) => at.map(s => clock(s, step < 60))}, axis), Object.assign({size: 56}, axis)],
      }, spec.data, c);
    }
  }

  function dress(from) {
    times(from); charts(from);
    if ($('#live[data-soon]')) setTimeout(refresh, 700);
  }

  // Nothing moves while somebody clicks, writes, selects, or has a form open.
  let down = false;
  document.addEventListener('pointerdown', () => { down = true; });
  for (const end of ['click', 'pointercancel', 'dragend']) document.addEventListener(end, () => { down = false; });
  function busy() {
    const live = $('#live'), a = document.activeElement, s = getSelection();
    return down || !live || $('details.action[open], dialog[open]') || $('input[type=checkbox]:checked:not([data-calm]), .tree details:not([open])', live) ||
      (a && live.contains(a) && a.matches('input, textarea, select')) ||
      (s && !s.isCollapsed && live.contains(s.anchorNode));
  }
  let due = false, streaming = false, last = Date.now(), lost = false;
  function refresh() {
    if (document.hidden || busy()) { due = true; note(); return; }
    due = false;
    const live = $('#live');
    if (live && live.hasAttribute('hx-get')) htmx.trigger(live, 'fresh');
  }
  function note() {
    const stale = $('#stale');
    if (!stale) return;
    stale.hidden = !(lost || (due && Date.now() - last > 5000));
    if (!stale.hidden) stale.textContent = lost ? stale.dataset.lost + ' ' + new Date(last).toLocaleTimeString() : stale.dataset.paused;
    document.body.classList.toggle('stale', lost);
  }

  // One stream a tab, closed while the tab is hidden.
  function stream() {
    const at = $('#stream');
    if (!at) return;
    if (document.hidden) {
      for (const s of all('[sse-connect]', at)) htmx.remove(s);
      streaming = false;
      return;
    }
    if ($('[sse-connect]', at)) return;
    const s = document.createElement('div');
    s.setAttribute('hx-ext', 'sse');
    s.setAttribute('sse-connect', at.dataset.stream);
    s.setAttribute('sse-swap', 'tick');
    s.setAttribute('hx-swap', 'none');
    at.append(s);
    htmx.process(s);
  }

  document.addEventListener('DOMContentLoaded', () => {
    dress(document);
    const early = $('details.action[open]'); // it was opened before this script came
    if (early && !document.activeElement.matches('input, textarea, select')) opened(early);
    const again = $('[data-again]');
    if (again) location.replace(again.href);
    stream();
    setInterval(() => { if (due || !streaming) refresh(); note(); }, 5000);
    setInterval(refresh, 30000);
  });
  document.addEventListener('visibilitychange', () => { stream(); if (!document.hidden) refresh(); });
  addEventListener('pagehide', () => { for (const s of all('[sse-connect]')) htmx.remove(s); });
  addEventListener('pageshow', e => { if (e.persisted) { stream(); refresh(); } });
  document.addEventListener('htmx:sseOpen', () => { streaming = true; });
  document.addEventListener('htmx:sseError', () => { streaming = false; });
  document.addEventListener('htmx:sseBeforeMessage', e => { e.preventDefault(); refresh(); });
  document.addEventListener('htmx:beforeSwap', e => {
    if (e.detail.target.id !== 'live') return;
    if (busy() || e.detail.xhr.status >= 400) { e.detail.shouldSwap = false; due = true; lost = e.detail.xhr.status >= 500; note(); }
  });
  document.addEventListener('htmx:afterSwap', e => {
    dress(document);
    const live = $('#live');
    if (live) {
      last = Date.now(); lost = false; note();
      const shown = $('#fresh time');
      if (shown && live.dataset.at) { shown.removeAttribute('data-local'); shown.dateTime = live.dataset.at; shown.textContent = live.dataset.at; times(shown.parentNode); }
    }
  });
  document.addEventListener('htmx:sendError', () => { lost = true; note(); });

  const keys = {};
  let went = 0;
  document.addEventListener('keydown', e => {
    if (e.key === 'Escape') {
      e.target.blur();
      for (const d of all('details.action[open]')) d.open = false;
    }
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, textarea, select')) return;
    for (const a of all('nav.side [data-key]')) keys[a.dataset.key] = a.href;
    if (Date.now() - went < 1500 && keys[e.key]) { location.href = keys[e.key]; return; }
    went = 0;
    if (e.key === '/') { $('#find').focus(); e.preventDefault(); }
    else if (e.key === 'g') went = Date.now();
    else if (e.key === '?') $('#help').showModal();
    else if (e.key === 'j' || e.key === 'k') {
      const rows = all('#live tbody a, #live .card > a');
      const i = rows.indexOf(document.activeElement) + (e.key === 'j' ? 1 : -1);
      if (rows[i]) rows[i].focus();
    }
  });
  document.addEventListener('click', e => {
    const b = e.target.closest('[data-copy], [data-help]');
    if (!b) return;
    if (b.matches('[data-help]')) { $('#help').showModal(); return; }
    const done = () => { const was = b.textContent; b.textContent = '✓'; setTimeout(() => { b.textContent = was; }, 1000); };
    if (navigator.clipboard) navigator.clipboard.writeText(b.dataset.copy).then(done);
    else { // over plain HTTP
      const area = document.createElement('textarea');
      area.value = b.dataset.copy;
      document.body.append(area);
      area.select();
      if (document.execCommand('copy')) done();
      area.remove();
    }
  });
  // A form that opens closes the others, and its first field gets the focus.
  function opened(form) {
    for (const d of all('details.action[open]')) if (d !== form) d.open = false;
    const first = $('input:not([type=hidden]), textarea', form);
    if (first) { first.focus(); first.select(); }
  }
  document.addEventListener('toggle', e => { if (e.target.matches('details.action[open]')) opened(e.target); }, true);
})();
