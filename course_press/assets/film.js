// A moving picture as a GIF: the whole picture as it is seen, the sentence of each step below it, and the book's name.
// Steps that stand are one long frame; what runs between two has a dozen frames a second, fewer where it runs long.
(function () {
  "use strict";
  var WIDE = 760, RATE = 12, MOST = 150, END = 3, EDGE = 16, LINE = 24;

  window.courseFilm = function (drawing, scene, show, told, done) {
    var seen = getComputedStyle(drawing), root = getComputedStyle(document.documentElement), size = drawing.getBoundingClientRect();
    var wide = Math.min(WIDE, Math.round(size.width)), high = Math.round(wide * size.height / size.width);
    var canvas = document.createElement("canvas"), pen = canvas.getContext("2d", { willReadFrequently: true });
    function color(name) { return root.getPropertyValue(name).trim() || seen.getPropertyValue(name).trim(); }
    var letters = "16px " + seen.fontFamily;
    function lines(text) {
      pen.font = letters;
      return text.split(" ").reduce(function (made, word) {
        var longer = made[made.length - 1] + " " + word;
        if (pen.measureText(longer).width <= wide - 2 * EDGE) made[made.length - 1] = longer.trim();
        else made.push(word);
        return made;
      }, [""]);
    }
    var most = Math.max.apply(null, scene.says.map(function (text) { return lines(text).length; }));
    canvas.width = wide;
    canvas.height = high + most * LINE + 3 * EDGE + LINE;
    var styles = ".scene{stroke-linecap:round;font:" + seen.fontSize + " " + seen.fontFamily.replace(/"/g, "'") + "}.scene text{stroke-width:0;font-variant-numeric:tabular-nums}" +
      ".scene .bold{font-weight:600}.scene .halo{paint-order:stroke;stroke:var(--paper)!important;stroke-width:4px;stroke-linejoin:round}";

    // Where it is, for how long.
    var last = scene.says.length - 1, whole = scene.seconds.slice(0, last).reduce(function (a, b) { return a + b; }, 0), frames = [];
    var rate = Math.min(RATE, MOST / (whole || 1));
    for (var at = 0; at < last; at++) {
      var parts = Math.max(1, Math.round(scene.seconds[at] * rate)), each = scene.seconds[at] / parts;
      for (var part = 0; part < parts; part++) frames.push([at + part / parts, each + (part ? 0 : scene.holds[at])]);
    }
    frames.push([last, END]);

    function drawn(place, then) {
      show(place);
      var text = new XMLSerializer().serializeToString(drawing), used = {};
      (text + styles).replace(/var\((--[\w-]+)/g, function (_, name) { used[name] = color(name); });
      var given = Object.keys(used).map(function (name) { return name + ":" + used[name]; }).join(";");
      text = text.replace(/^<svg/, '<svg width="' + wide + '" height="' + high + '"').replace(">", "><style>svg{" + given + "}" + styles.replace(/&/g, "&amp;").replace(/</g, "&lt;") + "</style>");
      var image = new Image();
      image.onload = function () {
        pen.fillStyle = color("--paper");
        pen.fillRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(image, 0, 0, wide, high);
        pen.font = letters;
        pen.fillStyle = color("--ink");
        lines(scene.says[Math.floor(place)]).forEach(function (line, i) { pen.fillText(line, EDGE, high + EDGE + LINE * (i + 0.7)); });
        pen.fillStyle = color("--accent");
        pen.textAlign = "right";
        pen.fillText(document.querySelector(".brand, .sidebar-title a, .navbar-title").textContent.trim(), wide - EDGE, canvas.height - EDGE);
        pen.textAlign = "left";
        then(pen.getImageData(0, 0, canvas.width, canvas.height).data);
      };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    }

    // Colors are those of three moments.
    var samples = [], made = window.gifenc.GIFEncoder();
    (function sample(i) {
      if (i < 3) { drawn(frames[Math.floor(i * (frames.length - 1) / 2)][0], function (pixels) { samples.push(pixels); sample(i + 1); }); return; }
      var all = new Uint8ClampedArray(samples.length * samples[0].length);
      samples.forEach(function (pixels, k) { all.set(pixels, k * pixels.length); });
      var palette = window.gifenc.quantize(all, 128);
      (function encode(k) {
        if (k === frames.length) { made.finish(); done(new Blob([made.bytes()], { type: "image/gif" })); return; }
        drawn(frames[k][0], function (pixels) {
          var of = k ? {} : { palette: palette, repeat: 0 };
          made.writeFrame(window.gifenc.applyPalette(pixels, palette), canvas.width, canvas.height, Object.assign(of, { delay: Math.round(1000 * frames[k][1]) }));
          told((k + 1) / frames.length);
          setTimeout(encode, 0, k + 1);
        });
      })(0);
    })(0);
  };
})();
