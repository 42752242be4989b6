// The web page: asks the API every second, and shows what it says. Histories are kept
// here, for as long as the page is open.

const EVERY = 1000; // milliseconds between two pictures
const HISTORY = 300; // points of a history
const SHORTEST = 60; // points that a chart has room for at first
const PAGE = 50; // connections on a page
const DASH = "–";

const byId = (id) => document.getElementById(id);

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
};

// Numbers as people read them: the same as `hnlb top` shows.

const count = (value) => {
  if (value === null || value === undefined) return DASH;
  if (value < 1000) return value > 0 && value < 10 && !Number.isInteger(value) ? value.toFixed(1) : value.toFixed(0);
  const [scaled, unit] = value < 1e6 ? [value / 1e3, "k"] : value < 1e9 ? [value / 1e6, "M"] : [value / 1e9, "G"];
  return `${scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0)} ${unit}`;
};

const bits = (bytes) => (bytes === null ? DASH : count(bytes * 8));

const percent = (part) => `${(part * 100).toFixed(1)} %`;

const time = (seconds) => {
  const whole = Math.floor(seconds);
  const [d, h, m] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${whole % 60} s` : `${whole % 60} s`;
};

// The API.

const TOKEN = "hnlb-token";

class Refused extends Error {}

const ask = async (path, method = "GET", body = undefined) => {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method, headers, body: text, cache: "no-store" });
  if (answer.status === 401) return login();
  const said = await answer.json();
  if (!answer.ok) throw new Refused(said.error ?? answer.statusText);
  return said;
};

const login = () => {
  const dialog = byId("login");
  if (!dialog.open) dialog.showModal();
  throw new Refused("this API wants a token");
};

const enter = () => {
  sessionStorage.setItem(TOKEN, byId("token").value.trim());
  byId("token").value = "";
  byId("login").close();
  role = null;
};

// Tables: rows have a key, and stay the same elements while they are shown, so that
// neither the focus nor what is being typed is lost.

class Table {
  // A column: name, text of an item, its value for sorting, tone, link, or an element
  // made once and updated.
  constructor(place, { key, columns, empty, order }) {
    Object.assign(this, { place, key, columns, order, rows: new Map(), items: [] });
    this.empty = element("p", { class: "empty" }, empty);
    this.body = element("tbody");
    this.heads = columns.map((column, at) => {
      const name = column.value ? element("button", { type: "button", onclick: () => this.sort(at) }, column.name) : column.name;
      return element("th", { scope: "col", class: column.number ? "number" : undefined }, name);
    });
    this.table = element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    byId(place).append(this.table, this.empty);
  }

  sort(at) {
    const [column, down] = this.order ?? [];
    this.order = [at, column === at ? !down : Boolean(this.columns[at].number)];
    this.show(this.items);
  }

  show(items) {
    this.items = items;
    this.table.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    const shown = [...items];
    if (this.order) {
      const [at, down] = this.order;
      const value = this.columns[at].value;
      const least = (v) => (v === null || v === undefined ? -Infinity : v);
      shown.sort((a, b) => {
        const [x, y] = [least(value(a)), least(value(b))];
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
      this.heads.forEach((head, own) => {
        if (own === at) head.setAttribute("aria-sort", down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
    }
    const wanted = new Set();
    shown.forEach((item, at) => {
      const key = this.key(item);
      wanted.add(key);
      let row = this.rows.get(key);
      if (!row) this.rows.set(key, (row = this.row(item)));
      row.item = item;
      row.update(item);
      if (this.body.children[at] !== row.element) this.body.insertBefore(row.element, this.body.children[at] ?? null);
    });
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
  }

  row(item) {
    const row = { item };
    const cells = this.columns.map((column, at) => {
      const classes = column.number ? "number" : column.made ? "made" : undefined;
      const cell = element(at === 0 ? "th" : "td", { "data-name": column.name, class: classes, scope: at === 0 ? "row" : undefined });
      if (column.made) return { cell, ...column.made(cell, () => row.item) };
      const inner = column.link ? cell.appendChild(element("a")) : column.tone ? cell.appendChild(element("span")) : cell;
      const update = (now) => {
        const text = column.text(now);
        if (inner.textContent !== text) inner.textContent = text;
        if (column.tone) inner.className = column.tone(now);
        if (column.link) inner.href = column.link(now);
      };
      return { cell, update };
    });
    row.element = element("tr", {}, ...cells.map((own) => own.cell));
    row.update = (now) => cells.forEach((own) => own.update(now));
    return row;
  }
}

const text = (name, of, more = {}) => ({ name, text: (item) => of(item) ?? "", value: of, ...more });
const number = (name, of, shown = count, more = {}) => ({ name, text: (item) => shown(of(item)), value: of, number: true, ...more });
const milliseconds = (ms) => (ms === null || ms === undefined ? DASH : `${ms.toFixed(2)} ms`);
const whole = (value) => (value === null || value === undefined ? DASH : String(value));

// Tiles with a history each.

const SVG = "http://www.w3.org/2000/svg";

class Tile {
  constructor(name, of, shown, note = () => "") {
    Object.assign(this, { name, of, shown, note, points: [] });
    this.value = element("p", { class: "value" }, DASH);
    this.noted = element("p", { class: "note" });
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.area = this.svg.appendChild(document.createElementNS(SVG, "path"));
    this.area.setAttribute("class", "area");
    this.line = this.svg.appendChild(document.createElementNS(SVG, "path"));
    byId("tiles").append(element("div", { class: "tile" }, element("h3", {}, name), this.value, this.svg, this.noted));
  }

  update(picture) {
    const value = this.of(picture);
    this.value.textContent = value === null ? DASH : this.shown(value);
    this.value.className = `value ${this.tone?.(value) ?? ""}`;
    if (value === null) return;
    this.points.push(value);
    if (this.points.length > HISTORY) this.points.shift();
    const most = Math.max(...this.points);
    const scale = most > 0 ? 36 / most : 0;
    const width = Math.max(SHORTEST, this.points.length) - 1;
    const first = width + 1 - this.points.length;
    this.svg.setAttribute("viewBox", `0 0 ${width} 40`);
    const path = this.points.map((own, at) => `${at ? "L" : "M"}${first + at} ${(38 - own * scale).toFixed(1)}`).join("");
    this.line.setAttribute("d", path);
    this.area.setAttribute("d", `${path}L${width} 40L${first} 40Z`);
    const seconds = time((this.points.length * EVERY) / 1000);
    this.svg.setAttribute("aria-label", `${this.name} in the last ${seconds}: now ${this.shown(value)}, at most ${this.shown(most)}`);
    this.noted.textContent = this.note(picture) || `at most ${this.shown(most)} in ${seconds}`;
  }
}

const part = (value, limit) => (limit ? `of ${count(limit)}, ${percent(value / limit)}` : "");

const tiles = [
  new Tile("Packets in per second", (p) => p.totals.received, count),
  new Tile("Packets out per second", (p) => p.totals.sent, count),
  new Tile("Past workers per second", (p) => p.totals.past_workers, count),
  new Tile("Dropped per second", (p) => p.totals.dropped, count),
  new Tile("New connections per second", (p) => p.totals.new_connections, count),
  new Tile("Connections", (p) => p.totals.connections, whole, (p) => part(p.totals.connections, p.totals.connections_limit)),
  new Tile("Rules in the NIC", (p) => p.totals.rules, whole, (p) => part(p.totals.rules, p.totals.rules_limit)),
  new Tile("util+ of the busiest worker", (p) => p.totals.util_plus, percent),
];

const loadTone = (load) => (load >= 0.9 ? "bad" : load >= 0.7 ? "warning" : "");
tiles.at(-1).tone = loadTone;

// The views.

const serviceState = (own) => {
  const [state, tone] = ownState(own);
  if (!own.announced) return [state, tone];
  if (own.announced === "announced") return [`${state}, announced`, tone];
  return [`${state}, not announced: ${own.announced}`, tone === "good" ? "warning" : tone];
};

const ownState = (own) => {
  if (own.removed) return ["removed", "warning"];
  if (own.serving === 0) return ["no backend", "bad"];
  return own.serving < own.backends ? ["degraded", "warning"] : ["up", "good"];
};

const services = new Table("services", {
  key: (own) => own.name,
  order: [2, true],
  empty: "There is no service.",
  columns: [
    text("service", (own) => own.name, { link: (own) => `#service/${encodeURIComponent(own.name)}` }),
    text("VIP", (own) => own.vip),
    number("connections", (own) => (own.stateless ? null : own.connections), whole),
    number("new/s", (own) => own.traffic.opened),
    number("packets/s", (own) => own.traffic.packets),
    number("in bit/s", (own) => own.traffic.bytes_to_backend, bits),
    number("out bit/s", (own) => own.traffic.bytes_to_client, bits),
    number("resets/s", (own) => own.traffic.resets),
    number("responses/s", (own) => own.requests.responses),
    number("5xx/s", (own) => own.requests.server_errors),
    number("first byte", (own) => own.requests.first_byte_ms, milliseconds),
    number("serving", (own) => own.serving, whole),
    number("backends", (own) => own.backends, whole),
    text("state", (own) => serviceState(own)[0], { tone: (own) => serviceState(own)[1] }),
  ],
});

const workers = new Table("workers", {
  key: (own) => own.worker,
  order: [0, false],
  empty: "There is no worker.",
  columns: [
    { ...number("worker", (own) => own.worker, whole), number: false },
    number("util", (own) => own.util, percent),
    number("util+", (own) => own.util_plus, percent, { tone: (own) => loadTone(own.util_plus) }),
    number("packets/s", (own) => own.packets),
    number("mean burst", (own) => own.burst, (mean) => mean?.toFixed(1) ?? DASH),
    number("drops/s", (own) => own.dropped),
    number("queues", (own) => own.queues, whole),
  ],
});

const ports = new Table("ports", {
  key: (own) => own.name,
  order: [0, false],
  empty: "There is no port.",
  columns: [
    text("port", (own) => own.name),
    text("link", (own) => (own.link_up ? "up" : "down"), { tone: (own) => (own.link_up ? "good" : "bad") }),
    number("in packets/s", (own) => own.rx_packets),
    number("in bit/s", (own) => own.rx_bytes, bits),
    number("out packets/s", (own) => own.tx_packets),
    number("out bit/s", (own) => own.tx_bytes, bits),
    number("past workers/s", (own) => own.past_workers),
    number("lost/s", (own) => own.lost, count, { tone: (own) => (own.lost > 0 ? "bad" : "") }),
    text("encoding", (own) => own.encoding),
    text("driver", (own) => own.driver),
  ],
});

const drops = new Table("drops", {
  key: (own) => own.name,
  order: [1, true],
  empty: "No packet has been dropped.",
  columns: [
    text("reason", (own) => own.name),
    number("per second", (own) => own.rate),
    number("since the start", (own) => own.total, whole),
  ],
});

// `10.0.0.1:80` and `[fd00::1]:80` without their ports.
const address = (own) => own.address.replace(/^\[(.*)\](:\d+)?$/, "$1").replace(/^([^:]*):\d+$/, "$1");

const tones = { up: "good", down: "bad", no_next_hop: "bad" };

const backends = new Table("backends", {
  key: (own) => own.address,
  empty: "The service has no backend.",
  columns: [
    text("backend", (own) => own.address, {
      link: (own) => `#service/${encodeURIComponent(own.service)}/${encodeURIComponent(address(own))}`,
    }),
    text("state", (own) => own.state.replaceAll("_", " ") + (own.why ? `: ${own.why}` : ""), { tone: (own) => tones[own.state] ?? "warning" }),
    number("weight", (own) => own.weight, whole),
    number("connections", (own) => own.connections, whole),
    number("new/s", (own) => own.traffic.opened),
    number("packets/s", (own) => own.traffic.packets),
    number("in bit/s", (own) => own.traffic.bytes_to_backend, bits),
    number("out bit/s", (own) => own.traffic.bytes_to_client, bits),
    number("resets/s", (own) => own.traffic.resets),
    number("responses/s", (own) => own.requests.responses),
    number("5xx/s", (own) => own.requests.server_errors),
    number("first byte", (own) => own.requests.first_byte_ms, milliseconds),
    number("first answer", (own) => own.first_answer_ms, milliseconds),
    text("next hop", (own) => own.next_hop),
    { name: "", made: (cell, item) => actions(cell, item) },
  ],
});

const connections = new Table("connection-list", {
  key: (own) => `${own.protocol} ${own.client} ${own.vip}`,
  empty: "There is no connection.",
  columns: [
    text("client", (own) => own.client),
    text("VIP", (own) => own.vip),
    text("backend", (own) => own.server),
    text("protocol", (own) => own.protocol),
    text("state", (own) => own.state),
    text("served by", (own) => (own.in_nic ? "NIC" : "software")),
    number("packets/s", (own) => own.rate),
    number("idle", (own) => own.idle_ms, (ms) => `${(ms / 1000).toFixed(1)} s`),
  ],
});

// Drains and weights, for clients that may.

const tell = (words) => {
  byId("told").textContent = words;
  byId("told").hidden = false;
};

const change = async (words, path, method, body) => {
  try {
    await ask(path, method, body);
    tell(words);
  } catch (error) {
    tell(`Nothing was changed: ${error.message}`);
  }
  await turn();
};

const confirmed = (words, verb) =>
  new Promise((done) => {
    const dialog = byId("ask");
    byId("ask-text").textContent = words;
    byId("ask-yes").textContent = verb;
    byId("ask-yes").onclick = () => dialog.close("yes");
    byId("ask-no").onclick = () => dialog.close("");
    dialog.onclose = () => done(dialog.returnValue === "yes");
    dialog.returnValue = "";
    dialog.showModal();
  });

const actions = (cell, item) => {
  const path = (verb) => `/v1/services/${encodeURIComponent(item().service)}/backends/${encodeURIComponent(address(item()))}/${verb}`;
  const steer = async () => {
    const own = item();
    const name = `${address(own)} of ${own.service}`;
    if (own.state === "drained") return change(`${name} serves again.`, path("restore"), "POST");
    const words = `Drain ${name}? It gets no new connections; its ${own.connections} stay.`;
    if (await confirmed(words, "Drain")) await change(`${name} is drained.`, path("drain"), "POST");
  };
  const drain = element("button", { type: "button", onclick: steer });
  const weight = element("input", { type: "number", min: 0, max: 65535, "aria-label": "weight" });
  const weigh = () => {
    const wanted = weight.valueAsNumber;
    if (!weight.checkValidity() || !Number.isInteger(wanted)) return tell("A weight is a whole number from 0 to 65535.");
    return change(`${address(item())} of ${item().service} has the weight ${wanted}.`, path("weight"), "PUT", { weight: wanted });
  };
  weight.addEventListener("keydown", (key) => key.key === "Enter" && weigh());
  weight.addEventListener("input", () => (weight.dataset.typed = "yes"));
  weight.addEventListener("blur", () => setTimeout(() => delete weight.dataset.typed, 3000));
  const set = element("button", { type: "button", onclick: weigh }, "Set weight");
  const all = element("div", { class: "actions" }, drain, weight, set);
  cell.append(all);
  const update = (own) => {
    all.hidden = role !== "operator" || own.state === "removed";
    drain.textContent = own.state === "drained" ? "Restore" : "Drain";
    drain.setAttribute("aria-label", `${drain.textContent} ${own.address}`);
    set.setAttribute("aria-label", `Set the weight of ${own.address}`);
    if (!weight.dataset.typed && document.activeElement !== weight) weight.value = own.weight;
    for (const part of [weight, set]) part.disabled = own.state === "drained";
  };
  return { update };
};

// Where the user is: nothing, a service, or a service and a backend's address.

const place = () => {
  const [what, ...names] = location.hash.slice(1).split("/");
  return what === "service" ? names.map(decodeURIComponent) : [];
};

let role = null;
let skip = 0;
let found = 0;

const arrive = () => {
  const [service, backend] = place();
  skip = 0;
  byId("overview").hidden = Boolean(service);
  byId("service").hidden = !service;
  byId("connections").hidden = !service;
  byId("crumbs").hidden = !service;
  byId("told").hidden = true;
  const crumbs = [element("a", { href: "#" }, "All services")];
  if (service) crumbs.push(" › ", backend ? element("a", { href: `#service/${encodeURIComponent(service)}` }, service) : service);
  if (backend) crumbs.push(" › ", backend);
  byId("crumbs").replaceChildren(...crumbs);
  byId("service-title").textContent = service ? `Service ${service}` : "";
  document.title = service ? `${service} – HNLB` : "HNLB";
  scrollTo(0, 0);
  turn();
};

const showService = async (picture, [name, backend]) => {
  const own = picture.services.find((one) => one.name === name);
  byId("service-about").textContent = own ? `${own.vip}, ${own.serving} of ${own.backends} backends serve, ${own.connections} connections` : "";
  const shown = picture.backends.filter((one) => !backend || address(one) === backend);
  backends.show(shown);
  const query = new URLSearchParams({ service: name, skip, limit: PAGE });
  if (backend) query.set("backend", backend);
  const list = await ask(`/v1/connections?${query}`);
  found = list.found;
  // The last pages have gone meanwhile.
  if (skip && skip >= found) skip = Math.max(0, Math.ceil(found / PAGE) - 1) * PAGE;
  connections.show(list.connections);
  const last = skip + list.connections.length;
  byId("connections-about").textContent = found ? `${skip + 1} to ${last} of ${found}, in the order of the table` : "";
  byId("back").disabled = skip === 0;
  byId("on").disabled = last >= found;
};

const show = async (picture, where) => {
  const badge = byId("state");
  badge.textContent = picture.ready ? "ready" : `waiting for ${picture.waiting_for.join(", ")}`;
  badge.className = `badge ${picture.ready ? "good" : "warning"}`;
  byId("about").textContent = `${picture.version}, up ${time(picture.uptime_seconds)}`;
  tiles.forEach((tile) => tile.update(picture));
  services.show(picture.services);
  workers.show(picture.workers);
  ports.show(picture.ports);
  drops.show(picture.drops);
  if (where.length) await showService(picture, where);
};

let running = null;

const once = async () => {
  const where = place();
  try {
    role ??= (await ask("/v1/access")).role;
    const query = where.length ? `?${new URLSearchParams({ service: where[0] })}` : "";
    await show(await ask(`/v1/picture${query}`), where);
    byId("failure").hidden = true;
  } catch (error) {
    role = null;
    byId("failure").textContent = error instanceof Refused ? error.message : `HNLB does not answer: ${error.message}. The figures are old.`;
    byId("failure").hidden = false;
  }
};

// One question at a time; a click waits for the one that is under way.
const turn = async () => {
  await running;
  running = once();
  await running;
};

const forever = async () => {
  if (!document.hidden) await turn();
  setTimeout(forever, EVERY);
};

byId("back").onclick = () => ((skip = Math.max(0, skip - PAGE)), turn());
byId("on").onclick = () => ((skip += PAGE), turn());
byId("login-yes").onclick = enter;
byId("token").addEventListener("keydown", (key) => key.key === "Enter" && enter());
addEventListener("hashchange", arrive);
arrive();
forever();
