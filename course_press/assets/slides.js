// What a deck does beside reveal.js: each slide's text as large as it fits, the speaker's window, light and dark. A
// classic script, so that it works from file://.
(function () {
  "use strict";
  var root = document.documentElement, body = document.body;
  var query = new URLSearchParams(location.search);
  var printing = query.has("print-pdf"), speaking = query.has("speaker") && !printing;
  var other = speaking ? window.opener : null;
  if (printing) root.dataset.theme = "light"; // paper is white
  var LARGEST = 1.6, SMALLEST = 0.5, STEP = 0.05;

  function each(selector, act, within) {
    Array.prototype.forEach.call((within || document).querySelectorAll(selector), act);
  }

  // The largest size at which a slide's content fits. Drawings keep the width of a page, for which they are made; text and
  // tables take all of the slide's.
  function fit(box) {
    var room = box.parentElement, style = getComputedStyle(room);
    var wide = room.clientWidth, high = room.clientHeight - parseFloat(style.paddingTop);
    if (!wide) return;
    var drawn = box.querySelector(".explorer tr:nth-child(9)") ? "84rem" : box.querySelector(".explorer") ? "68rem"
      : box.querySelector(".figure, .moving, .sizes") ? "46rem" : "";
    for (var zoom = LARGEST; zoom >= SMALLEST; zoom -= STEP) {
      box.style.setProperty("--zoom", zoom.toFixed(2));
      box.style.setProperty("--wide", drawn || wide / zoom + "px");
      if (box.scrollHeight * zoom <= high + 1 && box.scrollWidth * zoom <= wide + 1) break;
    }
  }
  function fitAll(slide) { each(".fit", fit, slide); }

  var previous = { slide: null };
  var sizes = new ResizeObserver(function (seen) { seen.forEach(function (one) { fit(one.target.closest(".fit")); }); });
  function show(slide) {
    if (previous.slide) each(".fit > *", function (part) { sizes.unobserve(part); }, previous.slide);
    previous.slide = slide;
    fitAll(slide);
    // A live figure is drawn when it is first seen, and may be larger or smaller than the picture that was there.
    each(".fit > *", function (part) { sizes.observe(part); }, slide);
  }

  function theme() {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("course-theme", root.dataset.theme); } catch (error) { /* lasts for this page only */ }
  }

  // Two windows of one deck: each tells the other where it is.
  function tell() {
    if (other && !other.closed) other.postMessage({ deck: location.pathname, state: Reveal.getState() }, "*");
  }
  addEventListener("message", function (event) {
    var said = event.data;
    if (!said || said.deck !== location.pathname || !other || event.source !== other) return;
    if (said.hello) { tell(); return; }
    if (JSON.stringify(said.state) !== JSON.stringify(Reveal.getState())) Reveal.setState(said.state);
  });
  // Reveal writes its place to the address at most once a second, so the address may be behind.
  function address(mode) { return location.pathname + mode + "#" + Reveal.getSlidePath(); }
  function speaker() {
    if (speaking) return;
    other = window.open(address("?speaker"), "speaker", "width=1280,height=720");
  }

  function notes() {
    if (!speaking) return;
    var here = Reveal.getCurrentSlide(), slides = Reveal.getSlides();
    var held = here.querySelector("aside.notes"), next = slides[slides.indexOf(here) + 1];
    var heading = next && next.querySelector("h2");
    document.querySelector(".speaker-text").innerHTML = held ? held.innerHTML : "";
    document.querySelector(".speaker-text").scrollTop = 0;
    document.querySelector(".speaker-next").textContent = heading ? body.dataset.next + ": " + heading.textContent : "";
  }
  if (speaking) {
    body.classList.add("speaking");
    document.querySelector(".speaker").hidden = false;
    var began = Date.now();
    var tick = function () {
      var seconds = Math.floor((Date.now() - began) / 1000);
      document.querySelector(".speaker-clock").textContent = new Date().toLocaleTimeString(root.lang, { hour: "2-digit", minute: "2-digit" });
      document.querySelector(".speaker-elapsed").textContent = Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
    };
    tick();
    setInterval(tick, 1000);
  }

  var acts = { speaker: speaker, theme: theme, print: function () { open(address("?print-pdf"), "_blank"); } };
  each(".deck-tools button", function (button) { button.addEventListener("click", acts[button.dataset.act]); });

  Reveal.on("ready", function () {
    each(".controls button", function (button) {
      var back = /navigate-(left|up)/.test(button.className);
      button.setAttribute("aria-label", back ? body.dataset.previous : body.dataset.next);
    });
    if (!printing) show(Reveal.getCurrentSlide());
    notes();
    if (speaking && other) other.postMessage({ deck: location.pathname, hello: true }, "*");
    body.dataset.ready = "";
  });
  Reveal.on("slidechanged", function (event) { show(event.currentSlide); notes(); tell(); });
  ["fragmentshown", "fragmenthidden", "paused", "resumed"].forEach(function (kind) { Reveal.on(kind, tell); });
  Reveal.on("pdf-ready", function () {
    // A live figure is drawn once it has been seen, and then may want another size.
    fitAll(document);
    setTimeout(function () { fitAll(document); body.dataset.printable = ""; }, 1500);
  });

  document.fonts.ready.then(function () {
    Reveal.initialize({
      width: 1280, height: 720, margin: 0, minScale: 0.1, maxScale: 4, center: false, hash: true, history: false, slideNumber: "c/t",
      navigationMode: "linear", transition: "none", backgroundTransition: "none", viewDistance: 2, embedded: speaking,
      jumpToSlide: false, help: false, pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1,
      showNotes: printing && query.has("notes") ? "separate-page" : false,
      keyboard: { 83: speaker, 84: theme, 80: acts.print, 191: null }
    });
  });
})();
