"use strict";
// Everything shown goes through textContent: no text of a corpus is ever read as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const count = (number) => number.toLocaleString("en");
  const percent = (share) => {
    const value = 100 * share;
    return (value >= 9.95 ? value.toFixed(0) : value >= 0.095 ? value.toFixed(1) : value.toFixed(2)) + " %";
  };
  const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

  // ---- The tree: numbers are depth first, so a subtree is a range.
  const nodes = data.nodes.map((node, id) => ({ ...node, id, children: [], level: 1 }));
  for (const node of nodes) {
    if (node.parent === null) continue;
    nodes[node.parent].children.push(node.id);
    node.level = nodes[node.parent].level + 1;
  }
  for (const node of [...nodes].reverse()) {
    node.end = node.children.length ? nodes[node.children.at(-1)].end : node.id + 1;
  }
  nodes[0].start = 0;
  for (const node of nodes) {
    let start = node.start;
    for (const child of node.children) {
      nodes[child].start = start;
      start += nodes[child].docs;
    }
    node.hue = Math.round(300 * (node.start + node.docs / 2) / Math.max(data.nDocs, 1) + 200) % 360;
    node.share = node.docs / Math.max(data.nDocs, 1);
  }
  const path = (node) => (node.parent === null ? [node] : [...path(nodes[node.parent]), node]);
  const depth = Math.max(...nodes.map((node) => node.level));

  // ---- Words: relevance is lambda log p(w|node) + (1 - lambda) log (p(w|node) / q(w)), q the corpus, the parent or both.
  const state = { picked: 0, relevance: data.relevance, contrast: data.contrast, query: "", more: 0 };
  for (const [id, terms] of data.terms.entries()) {
    let word = 0;
    nodes[id].terms = terms.word.map((step, i) => {
      word += step;
      return { word, here: -terms.here[i] / data.unit, corpus: -data.probability[word] / data.unit,
        parent: -terms.parent[i] / data.unit };
    });
  }
  const ranked = (node) => {
    const relevance = Math.max(state.relevance, data.leastRelevance);
    const weight = (1 - relevance) * (state.contrast === "both" ? node.stretch : 1); // lift_stretch in keywords.py
    const ofParent = data.contrasts[state.contrast];
    const score = (term) => (relevance + weight) * term.here - weight * ((1 - ofParent) * term.corpus + ofParent * term.parent);
    return [...node.terms].sort((a, b) => score(b) - score(a) || a.word - b.word).slice(0, data.shown);
  };
  let ranking = [];
  const rank = () => { ranking = nodes.map(ranked); };
  // A word and what its singular may be: names have no room for "number numbers" (leave_out_variants in keywords.py).
  const forms = (word) => {
    const all = [word];
    if (word.length > 3) {
      if (word.endsWith("ies")) all.push(word.slice(0, -3) + "y");
      if (word.endsWith("ices")) all.push(word.slice(0, -4) + "ix", word.slice(0, -4) + "ex");
      if (word.endsWith("es")) all.push(word.slice(0, -2));
      if (word.endsWith("s") && !word.endsWith("ss")) all.push(word.slice(0, -1));
    }
    return all;
  };
  const keywords = (node, number) => {
    const kept = [], seen = new Set();
    for (const term of ranking[node.id]) {
      if (kept.length === number) break;
      const word = data.words[term.word], all = forms(word.toLowerCase());
      if (all.some((form) => seen.has(form))) continue;
      kept.push(word);
      all.forEach((form) => seen.add(form));
    }
    return kept;
  };
  const nameOf = (node, number) => (node.parent === null ? "All documents" : keywords(node, number).join(" ") || `Node ${node.id}`);

  // Text with the parts that match the search lit up.
  const lit = (element, text) => {
    element.textContent = "";
    const low = text.toLowerCase(), query = state.query;
    // Lower case may change the length of a text; then offsets would lie.
    if (!query || low.length !== text.length) {
      element.textContent = text;
      return element;
    }
    let from = 0;
    for (let found = low.indexOf(query); found >= 0; found = low.indexOf(query, from)) {
      element.append(text.slice(from, found), make("mark", "", text.slice(found, found + query.length)));
      from = found + query.length;
    }
    element.append(text.slice(from));
    return element;
  };
  const hue = (element, node) => { element.style.setProperty("--hue", node.hue); return element; };
  const share = (element, value) => { element.style.setProperty("--share", Math.min(Math.max(value, 0), 1)); return element; };
  const size = (node, whole) => {
    const element = hue(make("span", "size", count(node.docs)), node);
    element.append(share(make("i"), node.docs / Math.max(whole, 1)));
    return element;
  };

  // ---- Rows of the tree, made once and hidden where a parent is closed.
  const tree = at("tree"), rows = [], texts = [];
  for (const node of nodes) {
    const row = make("div", "row");
    row.id = `node-${node.id}`;
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", node.level);
    const siblings = node.parent === null ? [0] : nodes[node.parent].children;
    row.setAttribute("aria-setsize", siblings.length);
    row.setAttribute("aria-posinset", siblings.indexOf(node.id) + 1);
    row.style.setProperty("--level", Math.min(node.level - 1, 14));
    row.dataset.node = node.id;
    row.tabIndex = -1;
    const twist = make("span", "twist");
    twist.setAttribute("aria-hidden", "true");
    const text = make("span", "text");
    text.dir = "auto";
    row.append(twist, text, size(node, data.nDocs));
    rows.push(row);
    texts.push(text);
  }
  tree.append(...rows);
  const open = new Set();
  let before = null; // what was open before a search
  const visible = (node) => node.parent === null || (open.has(node.parent) && visible(nodes[node.parent]));
  const layOut = () => {
    const shown = new Uint8Array(nodes.length);
    for (const node of nodes) {
      shown[node.id] = node.parent === null || (shown[node.parent] && open.has(node.parent)) ? 1 : 0;
      const row = rows[node.id], closed = !shown[node.id];
      if (row.hidden !== closed) row.hidden = closed;
      if (node.children.length) row.setAttribute("aria-expanded", open.has(node.id));
    }
  };
  const setOpen = (node, wanted) => {
    if (!node.children.length) return;
    if (wanted) open.add(node.id); else open.delete(node.id);
    if (!wanted && !visible(nodes[state.picked])) pick(node.id);
    layOut();
  };
  const reveal = (node) => { for (const above of path(node).slice(0, -1)) open.add(above.id); };
  const openFirst = () => {
    open.clear();
    let rowsShown = 1;
    for (let level = 1; level < depth; level++) {
      const inner = nodes.filter((node) => node.level === level && node.children.length);
      rowsShown += inner.reduce((sum, node) => sum + node.children.length, 0);
      if (level > 1 && rowsShown > 45) break;
      inner.forEach((node) => open.add(node.id));
    }
  };
  const nameRows = () => {
    for (const node of nodes) lit(texts[node.id], nameOf(node, 8));
    for (const node of nodes) if (cells[node.id]) cells[node.id].firstChild.textContent = nameOf(node, 5);
  };

  // ---- Overview: an icicle, width for documents, a row per level. The tree says the same to those who cannot see it.
  const overview = at("overview"), cells = [];
  const height = Math.max(5, Math.min(24, Math.floor(190 / depth)));
  overview.style.height = `${height * depth}px`;
  for (const node of nodes) {
    if (!node.docs) continue;
    const cell = hue(make("div", node.parent === null ? "cell root" : "cell"), node);
    cell.append(make("span", "text"));
    if (height < 16) cell.classList.add("tight");
    cell.dataset.node = node.id;
    cell.style.left = `${100 * node.start / data.nDocs}%`;
    cell.style.width = `${100 * node.share}%`;
    cell.style.top = `${height * (node.level - 1)}px`;
    cell.style.height = `${height}px`;
    cell.style.lineHeight = `${height - 3}px`;
    if (node.share < 0.03) cell.classList.add("tight");
    cells[node.id] = cell;
    overview.append(cell);
  }

  // ---- Detail of one node.
  const link = (node, number, className = "plain text") => {
    const button = lit(make("button", className), nameOf(node, number));
    button.type = "button";
    button.dir = "auto";
    button.dataset.go = node.id;
    return button;
  };
  const counted = (table) => {
    const sums = nodes.map(() => new Float64Array(table.names.length));
    for (const [id, pairs] of table.counts.entries()) {
      for (let i = 0; i < pairs.length; i += 2) sums[id][pairs[i]] += pairs[i + 1];
    }
    for (const node of [...nodes].reverse()) {
      if (node.parent !== null) sums[node.id].forEach((value, i) => { sums[node.parent][i] += value; });
    }
    return sums;
  };
  const labelCounts = data.labels && counted(data.labels), timeCounts = data.times && counted(data.times);

  const showWords = () => {
    const node = nodes[state.picked], list = at("words");
    const terms = ranking[node.id];
    const p = (term) => Math.exp(term.here), base = (term) => Math.exp(state.contrast === "parent" ? term.parent : term.corpus);
    const most = Math.max(...terms.map((term) => Math.max(p(term), base(term))), 1e-12);
    list.replaceChildren(...terms.map((term) => {
      const item = make("li"), word = lit(make("button", "plain name text"), data.words[term.word]);
      word.type = "button";
      word.dir = "auto";
      word.title = "Find this word in the tree";
      word.dataset.word = term.word;
      const track = make("span", "track"), number = make("span", "number");
      track.append(share(make("i"), p(term) / most), share(make("b"), base(term) / most));
      const ratio = p(term) / base(term);
      number.append(make("span", "", percent(p(term))),
        make("span", "", "× " + (ratio >= 9.95 ? ratio.toFixed(0) : ratio.toFixed(1))));
      item.append(word, track, number);
      return item;
    }));
    at("relevance-value").textContent = state.relevance.toFixed(2);
    at("there-name").textContent = state.contrast === "parent" ? "in the parent node" : "in all documents";
  };

  const showLabels = (node) => {
    const sums = labelCounts[node.id], all = labelCounts[0];
    const total = sums.reduce((a, b) => a + b, 0) || 1, whole = all.reduce((a, b) => a + b, 0) || 1;
    const first = [...sums.keys()].filter((i) => sums[i]).sort((a, b) => sums[b] - sums[a]).slice(0, 8);
    const most = Math.max(...first.map((i) => Math.max(sums[i] / total, all[i] / whole)), 1e-12);
    at("labels").replaceChildren(...first.map((i) => {
      const item = make("li"), name = make("span", "name text", data.labels.names[i]);
      name.dir = "auto";
      name.title = data.labels.names[i];
      const track = make("span", "track"), number = make("span", "number");
      track.append(share(make("i"), sums[i] / total / most), share(make("b"), all[i] / whole / most));
      number.append(make("span", "", percent(sums[i] / total)), make("span", "", count(sums[i])));
      item.append(name, track, number);
      return item;
    }));
  };

  const showTimes = (node) => {
    const { names } = data.times, all = timeCounts[0], sums = timeCounts[node.id], isRoot = node.parent === null;
    const values = names.map((_, i) => (isRoot ? all[i] : all[i] ? sums[i] / all[i] : 0));
    const most = Math.max(...values, 1e-12), peak = values.indexOf(Math.max(...values));
    const say = (i) => `${names[i]}: ${plural(sums[i], "document")}` + (isRoot ? "" : `, ${percent(values[i])} of all`);
    const chart = make("div", "chart");
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", names.length ? `From ${names[0]} to ${names.at(-1)}; most in ${say(peak)}.` : "No times");
    for (const i of names.keys()) {
      const bar = share(make("i", all[i] ? "" : "none"), values[i] / most);
      bar.title = say(i);
      chart.append(bar);
    }
    const axis = make("div", "axis quiet small");
    axis.append(make("span", "", names[0] || ""), make("span", "", isRoot ? "documents" : `share of all documents, up to ${percent(most)}`),
      make("span", "", names.at(-1) || ""));
    at("times").replaceChildren(chart, axis);
  };

  const docItem = (number, withLeaf) => {
    const item = make("li"), text = lit(make("span", "text"), data.documents.text[number] || "(empty)");
    text.dir = "auto";
    item.append(text);
    if (withLeaf) {
      const below = make("span", "quiet", "in ");
      below.append(link(nodes[data.documents.leaf[number]], 4));
      item.append(below);
    }
    return item;
  };
  const showDocuments = (node) => {
    const { best, leaf, order, text, total } = data.documents;
    const first = best[node.id], known = new Set(first);
    const rest = order.filter((number) => leaf[number] >= node.id && leaf[number] < node.end && !known.has(number));
    const shown = [...first, ...rest.slice(0, state.more)];
    at("documents").replaceChildren(...shown.map((number) => docItem(number, node.children.length > 0)));
    at("more").hidden = state.more >= rest.length;
    at("stored").textContent = text.length < total ? `${count(text.length)} of ${count(total)} documents are kept in this page.` : "";
  };

  const show = () => {
    const node = nodes[state.picked];
    hue(at("detail"), node);
    const trail = make("ol");
    for (const above of path(node).slice(0, -1)) {
      const item = make("li");
      item.append(link(above, 2));
      trail.append(item);
    }
    const here = make("li", "text", nameOf(node, 2));
    here.setAttribute("aria-current", "page");
    trail.append(here);
    at("crumbs").replaceChildren(trail);
    at("name").textContent = node.parent === null ? "All documents" : keywords(node, 4).join(", ") || `Node ${node.id}`;
    const above = node.parent === null ? null : nodes[node.parent];
    at("facts").textContent = [
      plural(node.docs, "document"),
      above && above.parent !== null ? `${percent(node.docs / Math.max(above.docs, 1))} of its parent` : "",
      above ? `${percent(node.share)} of all` : "",
      node.children.length ? `${plural(leavesBelow(node), "leaf").replace("leafs", "leaves")} below` : "leaf" + (node.reason ? ` (${node.reason})` : ""),
      `node ${node.id}`,
    ].filter(Boolean).join(" · ");
    const sure = at("confidence");
    sure.hidden = node.confidence === null;
    if (node.confidence !== null) {
      const meter = make("span", "meter");
      meter.setAttribute("role", "meter");
      meter.setAttribute("aria-label", "Split confidence");
      meter.setAttribute("aria-valuemin", 0);
      meter.setAttribute("aria-valuemax", 1);
      meter.setAttribute("aria-valuenow", node.confidence);
      meter.append(share(hue(make("i"), node), node.confidence));
      const text = make("span", "", `Split confidence ${node.confidence.toFixed(2)}`);
      text.title = "How surely this split comes out again when documents are resampled: 1 is always";
      sure.replaceChildren(text, meter);
    }
    showWords();
    at("children-part").hidden = !node.children.length;
    at("children").replaceChildren(...node.children.map((id) => {
      const item = make("li");
      item.append(size(nodes[id], node.docs), link(nodes[id], 8));
      return item;
    }));
    if (labelCounts) { at("labels-part").hidden = false; showLabels(node); }
    if (timeCounts) { at("times-part").hidden = false; showTimes(node); }
    if (data.documents) { at("documents-part").hidden = false; showDocuments(node); }
  };
  const leavesBelow = (node) => nodes.slice(node.id, node.end).filter((below) => !below.children.length).length;

  const pick = (id, focus) => {
    rows[state.picked].setAttribute("aria-selected", "false");
    rows[state.picked].tabIndex = -1;
    if (cells[state.picked]) cells[state.picked].classList.remove("picked");
    state.picked = id;
    state.more = 0;
    rows[id].setAttribute("aria-selected", "true");
    rows[id].tabIndex = 0;
    if (cells[id]) cells[id].classList.add("picked");
    if (!visible(nodes[id])) { reveal(nodes[id]); layOut(); }
    if (focus) rows[id].focus({ preventScroll: true });
    rows[id].scrollIntoView({ block: "nearest" });
    at("results").hidden = true;
    at("detail").hidden = false;
    at("right").scrollTop = 0;
    show();
    try { history.replaceState(null, "", `#${id}`); } catch { /* a frame may forbid it */ }
  };
  // On a phone the detail is below the tree: bring it into sight.
  const narrow = matchMedia("(max-width: 56rem)");
  const go = (id, focus) => {
    pick(id, focus);
    if (narrow.matches) at("right").scrollIntoView({ block: "start" });
  };

  // ---- Search.
  let lowTexts = null;
  const lowWords = data.words.map((word) => word.toLowerCase());
  const search = (typed) => {
    const query = typed.trim().toLowerCase();
    if (query === state.query) return;
    state.query = query;
    document.body.classList.toggle("searching", Boolean(query));
    for (const row of rows) { row.classList.remove("hit"); row.querySelector(".count")?.remove(); }
    for (const cell of overview.children) cell.classList.remove("hit");
    if (!query) {
      if (before) { open.clear(); before.forEach((id) => open.add(id)); before = null; }
      reveal(nodes[state.picked]);
      at("found").textContent = "";
      at("results").hidden = true;
      at("results").replaceChildren();
      at("detail").hidden = false;
      nameRows();
      layOut();
      show();
      return;
    }
    before ??= new Set(open);
    const grade = (word) => (word === query ? 0 : word.startsWith(query) ? 1 : 2);
    const words = [...lowWords.keys()].filter((i) => lowWords[i].includes(query))
      .sort((a, b) => grade(lowWords[a]) - grade(lowWords[b]) || a - b);
    let found = [];
    if (data.documents) {
      lowTexts ??= data.documents.text.map((text) => text.toLowerCase());
      found = data.documents.order.filter((i) => lowTexts[i].includes(query));
    }
    const hit = new Set(), wanted = new Set(words);
    for (const node of nodes) {
      if (node.parent !== null && ranking[node.id].some((term) => wanted.has(term.word))) hit.add(node.id);
    }
    for (const word of words.slice(0, 20)) hit.add(data.home[word]);
    const perNode = new Map();
    for (const number of found) {
      for (const node of path(nodes[data.documents.leaf[number]])) perNode.set(node.id, (perNode.get(node.id) || 0) + 1);
    }
    for (const [id, number] of perNode) {
      hit.add(id);
      const badge = make("span", "count", count(number));
      badge.title = plural(number, "document") + " found";
      texts[id].after(badge);
    }
    const strong = [...hit].filter((id) => ranking[id].some((term) => wanted.has(term.word)));
    if (strong.length <= 80) strong.forEach((id) => reveal(nodes[id]));
    for (const id of hit) { rows[id].classList.add("hit"); cells[id]?.classList.add("hit"); }
    nameRows();
    layOut();
    showResults(words, found, hit.size);
  };

  const showResults = (words, found, hits) => {
    const panel = at("results"), title = make("h2", "", "Search"), close = make("button", "", "Close");
    close.type = "button";
    close.dataset.close = "";
    title.append(close);
    const parts = [title];
    const heading = (text) => parts.push(make("h3", "", text));
    const more = (shown, all) => { if (all > shown) parts.push(make("p", "quiet small", `and ${count(all - shown)} more`)); };
    heading(plural(words.length, "word"));
    const list = make("ul", "links");
    for (const word of words.slice(0, 12)) {
      const item = make("li"), text = lit(make("span", "text"), data.words[word]);
      const home = nodes[data.home[word]];
      const where = make("span", "quiet", `${data.homeShare[word]} % of it in `);
      where.append(link(home, 4));
      item.append(text, where);
      list.append(item);
    }
    parts.push(list);
    more(12, words.length);
    if (data.documents) {
      heading(plural(found.length, "document"));
      const docs = make("ol", "docs");
      docs.append(...found.slice(0, 30).map((number) => docItem(number, true)));
      parts.push(docs);
      more(30, found.length);
    }
    panel.replaceChildren(...parts);
    panel.hidden = false;
    at("detail").hidden = true;
    at("right").scrollTop = 0;
    at("found").textContent = `${plural(words.length, "word")}${data.documents ? `, ${plural(found.length, "document")}` : ""} in ${plural(hits, "node")}`;
  };
  const endSearch = () => { at("search").value = ""; search(""); };

  // ---- What people do.
  let waiting = 0;
  at("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(event.target.value), 60);
  });
  at("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      clearTimeout(waiting);
      search(event.target.value);
      const hits = rows.filter((row) => row.classList.contains("hit") && !row.hidden);
      const first = hits.find((row) => row.querySelector("mark")) || hits[0];
      if (first) { event.preventDefault(); pick(Number(first.dataset.node), true); }
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      at("search").focus();
      at("search").select();
    } else if (event.key === "Escape") {
      clearTimeout(waiting);
      endSearch();
      rows[state.picked].focus();
    }
  });
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-go], [data-word], [data-close]");
    if (!target) return;
    if (target.dataset.go !== undefined) {
      pick(Number(target.dataset.go));
      at("name").focus({ preventScroll: true });
      if (narrow.matches) at("right").scrollIntoView({ block: "start" });
    } else if (target.dataset.word !== undefined) {
      at("search").value = data.words[target.dataset.word];
      search(at("search").value);
      at("search").focus();
    } else {
      endSearch();
      rows[state.picked].focus();
    }
  });
  overview.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) go(Number(cell.dataset.node));
  });
  overview.addEventListener("mouseover", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) cell.title = `${plural(nodes[cell.dataset.node].docs, "document")}: ${nameOf(nodes[cell.dataset.node], 8)}`;
  });
  tree.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (!row) return;
    const node = nodes[row.dataset.node];
    if (event.target.closest(".twist") && node.children.length) {
      setOpen(node, !open.has(node.id));
      row.focus({ preventScroll: true });
    } else go(node.id, true);
  });
  tree.addEventListener("dblclick", (event) => {
    const row = event.target.closest(".row");
    if (row && !event.target.closest(".twist")) setOpen(nodes[row.dataset.node], !open.has(Number(row.dataset.node)));
  });
  tree.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = nodes[state.picked], shown = rows.filter((row) => !row.hidden);
    const index = shown.indexOf(rows[node.id]), step = (to) => pick(Number(shown[Math.max(0, Math.min(to, shown.length - 1))].dataset.node), true);
    const isOpen = open.has(node.id);
    const keys = {
      ArrowDown: () => step(index + 1),
      ArrowUp: () => step(index - 1),
      Home: () => step(0),
      End: () => step(shown.length - 1),
      ArrowRight: () => { if (node.children.length) { if (isOpen) pick(node.children[0], true); else setOpen(node, true); } },
      ArrowLeft: () => { if (isOpen) setOpen(node, false); else if (node.parent !== null) pick(node.parent, true); },
      Enter: () => { go(node.id); at("name").focus({ preventScroll: true }); },
      " ": () => setOpen(node, !isOpen),
      "*": () => openAll(),
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  const openAll = () => { nodes.forEach((node) => node.children.length && open.add(node.id)); layOut(); };
  at("up").addEventListener("click", () => {
    rows[state.picked].focus({ preventScroll: true });
    rows[state.picked].scrollIntoView({ block: "center" });
  });
  at("open-all").addEventListener("click", openAll);
  at("close-all").addEventListener("click", () => {
    open.clear();
    open.add(0);
    if (!visible(nodes[state.picked])) pick(0);
    layOut();
  });
  at("more").addEventListener("click", () => {
    const seen = at("documents").children.length;
    state.more += 20;
    showDocuments(nodes[state.picked]);
    const next = at("documents").children[seen];
    if (next) { next.tabIndex = -1; next.focus({ preventScroll: true }); }
  });
  let frame = 0;
  const rerank = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => { rank(); nameRows(); show(); });
  };
  at("relevance").addEventListener("input", (event) => { state.relevance = Number(event.target.value); rerank(); });
  at("contrast").addEventListener("change", (event) => { state.contrast = event.target.value; rerank(); });

  // ---- Begin.
  const leaves = nodes.filter((node) => !node.children.length).length;
  at("summary").textContent = `${plural(data.nDocs, "document")} · ${plural(data.vocabulary, "word")} · ${plural(leaves, "leaf").replace("leafs", "leaves")}`;
  at("relevance").value = state.relevance; // browsers keep what was chosen before a reload
  at("contrast").value = state.contrast;
  rank();
  nameRows();
  openFirst();
  layOut();
  const asked = Number(location.hash.slice(1));
  pick(Number.isInteger(asked) && nodes[asked] ? asked : 0);
})();
