// What the search dialog finds. It comes after the engine and the index, when a reader reaches for the search.
(function () {
  "use strict";
  var body = document.body;
  var dialog = document.querySelector("dialog.search");
  var input = dialog.querySelector("input");
  var hits = document.getElementById("hits");
  var count = dialog.querySelector(".count");
  var MOST = 12;
  var FEW = 6;
  var GAP = "[\\s\\-\u2010-\u2015/·_]*";

  function make(tag, properties, parent) {
    return parent.appendChild(Object.assign(document.createElement(tag), properties));
  }
  function bare(text) {
    return text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "").normalize("NFC");
  }
  // The runs of a text: course_press/pages/searchable.py takes the pages apart in the same way.
  function runs(text) { return bare(text).match(/[가-힣]+|(?:(?![가-힣])[\p{L}\p{N}])+/gu) || []; }
  function tokens(text) {
    return runs(text).reduce(function (all, run) {
      if (run.length < 2 || !/[가-힣]/.test(run)) return all.concat(run);
      for (var i = 0; i + 1 < run.length; i++) all.push(run.slice(i, i + 2));
      return all;
    }, []);
  }
  var engine = MiniSearch.loadJSON(window.COURSE_SEARCH, {
    fields: ["title", "text", "also"],
    storeFields: ["label", "page", "title", "text", "url", "also", "aside"],
    tokenize: tokens,
    searchOptions: { boost: { title: 3, also: 3 } }
  });
  window.COURSE_SEARCH = null;

  // What is being typed is a beginning, and a long word of a question may be one; pairs of syllables stand for themselves.
  function begins(term, at, all) { return !/[가-힣]/.test(term) && term.length > (at === all.length - 1 ? 1 : 3); }
  function near(term) { return term.length > 3 && 0.25; }
  // The term of the glossary that is called so, in any language; in Korean a particle may follow.
  function called(name) {
    var found = [];
    engine._storedFields.forEach(function (one, id) {
      var is = one.also && (one.title + ";" + one.also).split(/[;.:()]/).some(function (other) {
        var own = runs(other).join("");
        return own && (own === name || (own.length > 1 && /[가-힣]$/.test(own) && name.indexOf(own) === 0 && name.length - own.length < 3));
      });
      if (is) found.push(Object.assign({ id: id, terms: [] }, one));
    });
    return found;
  }

  // Words written as one or apart: "kvcache", "산술강도", "all reduce". A letter of the question may follow on a gap.
  function apart(question) {
    var letters = Array.from(runs(question).join(""));
    if (letters.length < (/[가-힣]/.test(question) ? 2 : 4)) return [];
    var pattern = new RegExp("(^|[^\\p{L}\\p{N}])" + letters.join(GAP), "u");
    var found = [];
    engine._storedFields.forEach(function (one, id) {
      var title = pattern.test(bare(one.title + " ; " + (one.also || "")));
      if (title || pattern.test(bare(one.text))) found.push(Object.assign({ id: id, score: title ? 2 : 1, terms: [], pattern: pattern }, one));
    });
    return found.sort(function (a, b) { return b.score - a.score; });
  }

  // Little words tell nothing where one of several is enough.
  function telling(question) {
    var words = runs(question);
    var long = words.filter(function (word) { return word.length > 3 || /[가-힣\d]/.test(word); });
    return (long.length ? long : words).join(" ");
  }

  // The term of this name; what holds every word; then what holds them written otherwise; what is near; last, what holds some of them.
  function find(question) {
    var seen = {};
    var found = [];
    var asides = []; // what is meant for instructors comes after all else
    function add(more) {
      more.forEach(function (hit) {
        if (!seen[hit.url]) { seen[hit.url] = true; (hit.aside ? asides : found).push(hit); }
      });
    }
    var terms = called(runs(question).join(""));
    add(terms);
    var every = engine.search(question, { combineWith: "AND", prefix: begins });
    // That a long section has all little words of a question says little: leave room for titles.
    add(telling(question) === runs(question).join(" ") ? every : every.slice(0, FEW));
    if (found.length < MOST) add(apart(question));
    if (found.length < MOST) add(engine.search(telling(question), { combineWith: "OR", prefix: begins, fields: ["title"] }).slice(0, FEW / 2));
    if (found.length < FEW) add(engine.search(question, { combineWith: "AND", prefix: begins, fuzzy: near }));
    if (found.length < MOST) add(engine.search(telling(question), { combineWith: "OR", prefix: begins, fuzzy: near }));
    // A term by another name: what the book says under its own.
    if (terms.length && found.length < MOST) add(engine.search(terms[0].title.replace(/\(.*/, ""), { combineWith: "AND" }));
    return found.concat(asides);
  }

  function snippet(hit, question, parent) {
    var text = bare(hit.text);
    if (text.length !== hit.text.length) text = hit.text.toLowerCase();
    var words = runs(question).concat(hit.terms).sort(function (a, b) { return b.length - a.length; });
    var apartAt = hit.pattern && text.match(hit.pattern);
    var length = apartAt ? apartAt[0].length - apartAt[1].length : 0;
    var at = apartAt ? apartAt.index + apartAt[1].length : -1;
    if (at < 0) {
      [runs(question).join(" ")].concat(words).some(function (word) {
        at = word ? text.indexOf(word) : -1;
        length = word.length;
        return at >= 0;
      });
    }
    if (!hit.text) return;
    if (at < 0) { make("small", { textContent: hit.text.slice(0, 140) + (hit.text.length > 140 ? " …" : "") }, parent); return; }
    var start = Math.max(0, at - 60);
    var end = at + length + 110;
    var line = make("small", { textContent: (start ? "… " : "") + hit.text.slice(start, at) }, parent);
    make("mark", { textContent: hit.text.slice(at, at + length) }, line);
    line.appendChild(document.createTextNode(hit.text.slice(at + length, end) + (end < hit.text.length ? " …" : "")));
  }
  function search() {
    var question = input.value.trim();
    hits.textContent = "";
    if (!question) { count.textContent = ""; return; }
    var found = find(question).slice(0, MOST);
    var said = found.length === 1 ? count.dataset.foundOne : found.length ? count.dataset.found : count.dataset.nothing;
    count.textContent = said.replace("{n}", found.length);
    if (!found.length) make("li", { textContent: count.dataset.nothing }, hits);
    found.forEach(function (hit) {
      var link = make("a", { href: body.dataset.base + hit.url }, make("li", {}, hits));
      if (hit.label) make("small", { className: "kind", textContent: hit.label }, link);
      make("strong", { textContent: hit.title }, link);
      if (hit.page !== hit.title && hit.page !== hit.label) make("small", { textContent: hit.page }, link);
      snippet(hit, question, link);
      link.addEventListener("click", function () { dialog.close(); });
    });
  }
  input.addEventListener("input", search);
  dialog.addEventListener("keydown", function (event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    var stops = [input].concat(Array.prototype.slice.call(hits.querySelectorAll("a")));
    var at = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    stops[(at + stops.length) % stops.length].focus();
    event.preventDefault();
  });
  input.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { event.preventDefault(); dialog.close(); return; }  // not first a cleared field
    var first = hits.querySelector("a");
    if (event.key === "Enter" && first) { event.preventDefault(); first.click(); }
  });
  search();
})();
