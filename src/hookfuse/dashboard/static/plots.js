// Plots: drawn from columns that the server gives, in the colours of the theme.
"use strict";

const HEIGHT = 150;
const SHORTEST = 20;
const plots = new Map();

// A canvas knows no variables: an element says what one means in this theme.
function colour(name, alpha = 1) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return alpha === 1 ? found : found.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

function seconds(value) {
  if (value === null || value === undefined) return "";
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${+value.toFixed(1)} s`;
}

// Between two gaps there is no line to draw, only a point.
function alone(plot, at) {
  const values = plot.data[at];
  const isGap = (each) => each === null || each === undefined;
  return [...values.keys()].filter((n) => !isGap(values[n]) && isGap(values[n - 1]) && isGap(values[n + 1]));
}

function line(name, fill = false) {
  const points = { show: false, filter: alone, size: 4, fill: colour(name) };
  return { stroke: colour(name), width: 1.5, spanGaps: false, points, fill: fill ? colour(name, 0.12) : undefined };
}

function dots(name) {
  return { stroke: colour(name), fill: colour(name), width: 0, paths: () => null, points: { show: true, size: 5, fill: colour(name) } };
}

function bars(name) {
  return { stroke: colour(name), fill: colour(name), width: 0, paths: uPlot.paths.bars({ size: [0.8, 8, 2] }), points: { show: false } };
}

// What each plot shows: the columns it takes, how they are drawn, how its axis is written, how far it goes at least, and
// how many seconds of room its ends need.
const KINDS = {
  rates: { columns: ["sentPerSecond", "failedPerSecond"], series: () => [line("good", true), line("bad")], values: (v) => `${+v.toFixed(1)}`, least: 1 },
  latency: { columns: ["p50Seconds", "p95Seconds"], series: () => [line("accent"), line("warn")], values: seconds, least: 0.01 },
  breakers: { columns: ["opened", "closed"], series: () => [bars("bad"), bars("good")], values: (v) => (Number.isInteger(v) ? `${v}` : ""), least: 3, room: 6 },
  attempts: { columns: ["okSeconds", "failedSeconds"], series: () => [dots("good"), dots("bad")], values: seconds, least: 0.01, room: 1 },
};

// From when to when: bars and dots need room at the ends, and a moment would have the same second at every mark.
function reach(instants, room = 0) {
  const [first, last] = [instants[0] - room, instants[instants.length - 1] + room];
  const missing = Math.max(0, SHORTEST - (last - first)) / 2;
  return [first - missing, last + missing];
}

function options(kind, width, instants) {
  const ends = reach(instants, KINDS[kind].room);
  const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width,
    height: HEIGHT,
    padding: [8, 24, 0, 0],
    cursor: { show: false },
    legend: { show: false },
    scales: {
      x: { range: () => ends },
      y: { range: (_, low, high) => [0, Math.max(high * 1.1, KINDS[kind].least)] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 24, values: [[3600, "{HH}:{mm}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
      { ...axis, size: 52, space: 36, values: (_, found) => found.map(KINDS[kind].values) },
    ],
    series: [{}, ...KINDS[kind].series()],
  };
}

function draw(element, data) {
  const kind = element.dataset.plot;
  const columns = [data.at || [], ...KINDS[kind].columns.map((name) => data[name] || [])];
  const empty = columns[0].length === 0;
  element.classList.toggle("none", empty);
  element.dataset.none = kind === "attempts" ? "No attempts yet" : "Numbers come in a few seconds";
  plots.get(element)?.destroy();
  plots.delete(element);
  if (!empty) plots.set(element, new uPlot(options(kind, element.clientWidth, columns[0]), columns, element));
}

const answers = new Map();

async function load() {
  const elements = [...document.querySelectorAll("[data-plot]")];
  for (const path of new Set(elements.map((each) => each.dataset.series))) {
    try {
      const answer = await fetch(path);
      if (answer.ok) answers.set(path, await answer.json());
    } catch {
      // It is asked for again with the next change.
    }
  }
  drawAll();
}

function drawAll() {
  for (const element of document.querySelectorAll("[data-plot]")) draw(element, answers.get(element.dataset.series) || {});
}

let last = 0;

document.addEventListener("DOMContentLoaded", load);
document.addEventListener("hookfuse:theme", drawAll);
document.addEventListener("hookfuse:change", () => {
  // Plots move slowly; drawing them with every change would be for nothing.
  if (Date.now() - last < 2000) return;
  last = Date.now();
  load();
});
window.addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
