-- Shared by both engines: what a page knows of the rest of the book. How long it takes to read, the list of chapters on the
-- cover, and links from the first use of a term to its entry in the glossary.

local stringify = pandoc.utils.stringify
-- Minutes. The rate is that at which students read what they will have to know, slower than reading for pleasure [@carver1992];
-- Korean syllables are slowed in the same proportion.
local WORDS_PER_MINUTE, HANGUL_PER_MINUTE = 138, 300
local LOOK, EXERCISE, PROBLEM = 1, 5, 10
local HANGUL = "[\234-\237][\128-\191][\128-\191]"
local root = quarto and quarto.project.directory or "."

local function file_text(path)
  local file = io.open(path, "rb")
  local text = file and file:read("a")
  if file then file:close() end
  return text
end

-- Rows of course_lib's word list, which lies beside the press wherever that is installed.
local function rows_of(name)
  local path = "../../course_lib/data/" .. name
  path = quarto and quarto.utils.resolve_path(path) or pandoc.path.join { pandoc.path.directory(PANDOC_SCRIPT_FILE), path }
  local parsed = pandoc.utils.to_simple_table(pandoc.read(file_text(path), "csv").blocks[1])
  local header = parsed.headers:map(function(cell) return stringify(cell) end)
  return parsed.rows:map(function(cells)
    local row = {}
    for i, name_of_column in ipairs(header) do row[name_of_column] = stringify(cells[i]) end
    return row
  end)
end

-- What a chapter takes, in minutes, from its source: a page says the same before and after its cells have run. Inline code is a
-- value: one word. A figure, a table or a displayed equation is a minute's look. Exercises and problems come on top, and what a lab asks
-- for beyond reading stands in its front matter.
local function study(chapter)
  local words, hangul, looks, work = 0, 0, 0, tonumber(stringify(chapter.meta.work or "")) or 0
  local problems = false
  chapter.blocks:walk {
    Header = function(header) problems = header.identifier:match("problems$") ~= nil end,
    Para = function(para)
      if stringify(para):match("^{{<.*/ex%-") then work = work + EXERCISE end
      -- A problem that its answer follows is no item of a list: **1.** begins it.
      local first = para.content[1]
      if problems and first and first.t == "Strong" and stringify(first):match("^%d+%.$") then work = work + PROBLEM end
    end,
    Div = function(div)
      if div.identifier:match("^fig%-") or div.identifier:match("^tbl%-") then looks = looks + 1 end
      if div.classes:includes("problem") then work = work + PROBLEM end
    end,
    OrderedList = function(list) if problems then work = work + PROBLEM * #list.content end end,
    Math = function(math) if math.mathtype == "DisplayMath" then looks = looks + 1 end end,
    traverse = "topdown",
  }
  local prose = chapter.blocks:walk {
    CodeBlock = function() return {} end,
    Para = function(para) return stringify(para):match("^{{<") and {} or nil end,
    Table = function() return {} end,
    Code = function() return pandoc.Str("1") end,
  }
  prose:walk {
    Str = function(str)
      local rest, syllables = str.text:gsub(HANGUL, "")
      hangul = hangul + syllables
      if rest:gsub("\226[\128-\191][\128-\191]", ""):match("[%w\195-\233]") then words = words + 1 end
    end,
  }
  return math.max(1, math.ceil(words / WORDS_PER_MINUTE + hangul / HANGUL_PER_MINUTE + LOOK * looks)), work
end

-- A page as it was written, or nil where it has no title of its own: then it is unnumbered, and for looking things up.
local function chapter_at(path)
  local chapter = pandoc.read(file_text(path) or "", "markdown")
  return chapter.meta.title and chapter
end

local function inlines_of(markdown) return pandoc.utils.blocks_to_inlines(pandoc.read(markdown, "markdown").blocks) end

-- What the cover says of each chapter. Quarto does not tell, so that its sources are read.
local function read_chapters(lang)
  local list = pandoc.List {}
  for path in file_text(root .. "/_quarto-" .. lang .. ".yml"):gmatch("chapters/[%w/-]+%.qmd") do
    local chapter = chapter_at(root .. "/" .. path)
    if chapter then
      local read, work = study(chapter)
      local meta = chapter.meta
      list:insert { path = path, title = meta.title, description = meta.description or {}, minutes = read, work = work }
    end
  end
  return list
end

local function chapters(lang, known)
  local said = {}
  for _, row in ipairs(rows_of("words.csv")) do said[row.term] = row[lang] end
  local function time(key, counts)
    return pandoc.Span({ pandoc.Str((said[key]:gsub("{(%a+)}", function(name) return tostring(counts[name]) end))) }, { class = "time" })
  end
  local items, reading, working = pandoc.List {}, 0, 0
  for _, chapter in ipairs(known or read_chapters(lang)) do
    local read, work = math.tointeger(chapter.minutes), math.tointeger(chapter.work)
    reading, working = reading + read, working + work
    local first = pandoc.List { pandoc.Link(chapter.title, chapter.path), pandoc.Space(), time("ui-minutes", { n = read }) }
    if work > 0 then first:extend { pandoc.Space(), time("ui-work-minutes", { n = work }) } end
    items:insert { pandoc.Para(first), pandoc.Para(chapter.description) }
  end
  local function hours(minutes) return math.ceil(minutes / 60) end
  return { pandoc.OrderedList(items), pandoc.Para { time("ui-hours-in-all", { n = hours(reading), m = hours(working) }) } }
end

-- The words of a term, and how a language bends them.

local PARTICLES = {
  "은", "는", "이", "가", "을", "를", "의", "에", "와", "과", "로", "으로", "도", "만", "까지", "부터", "보다", "처럼", "마다", "라", "인", "일",
  "하", "한", "할", "해", "했", "된", "되", "될", "됐", "다", "짜리",
}

local bends = {
  en = function(word, given) return given == word or given == word .. "s" or given == word .. "es" end,
  es = function(word, given)
    if given == word or given == word .. "s" or given == word .. "es" then return true end
    local stem = word:match("^(.*[ai]d)o$") or word:match("^(dens)o$") -- adjectives: limitado, denso
    if stem and (given == stem .. "a" or given == stem .. "as" or given == stem .. "os") then return true end
    stem = word:match("^(.*)ión$")
    return stem ~= nil and given == stem .. "iones"
  end,
  ko = function(word, given)
    if given:sub(1, #word) ~= word then return false end
    local rest = given:sub(#word + 1)
    if rest == "" or rest:match("^[%(%)%.,·]") then return true end
    for _, particle in ipairs(PARTICLES) do
      if rest:sub(1, #particle) == particle then return true end
    end
    return false
  end,
}

local function split(text) return pandoc.List(text:gmatch("%S+")):map(pandoc.text.lower) end

-- What may stand for a term: its words, and the short form in parentheses. The longest come first.
local function forms(lang)
  local meaning, list = {}, pandoc.List {}
  for _, row in ipairs(rows_of("definitions.csv")) do meaning[row.term] = row[lang] end
  for _, row in ipairs(rows_of("words.csv")) do
    if row.kind == "term" then
      local plain, short = row[lang]:match("^(.-)%s*%((.-)%)$")
      for _, form in ipairs { plain or row[lang], short } do
        list:insert { term = row.term, words = pandoc.List(split(form)), meaning = meaning[row.term] }
      end
    end
  end
  table.sort(list, function(a, b)
    if #a.words ~= #b.words then return #a.words > #b.words end
    return a.term < b.term
  end)
  return list
end

local function trimmed(text, bend)
  return bend == bends.ko and text or (text:gsub("[%.,;:!%?%)%]\194\187]*$", ""))
end

-- The forms whose words may begin with this one; where a form has only one, this one is all of it.
local function beginning_with(text, list, bend)
  local given = pandoc.text.lower(text:sub(#text:match("^[%(%[\194\171\191]*") + 1))
  local alone = trimmed(given, bend)
  return list:filter(function(form)
    local word = form.words[1]
    if #form.words == 1 then return bend(word, alone) end
    return given == word or bend ~= bends.ko and bend(word, given)
  end)
end

-- Where a form that begins at this place ends: whether its other words follow.
local function ends_term(form, inlines, at, bend)
  local here, given = at, nil
  for k = 2, #form.words do
    here = here + 2
    local str, gap = inlines[here], inlines[here - 1]
    if not str or str.t ~= "Str" or (gap.t ~= "Space" and gap.t ~= "SoftBreak") then return nil end
    given = pandoc.text.lower(str.text)
    if k == #form.words then given = trimmed(given, bend) end
    if given ~= form.words[k] and not ((k == #form.words or bend ~= bends.ko) and bend(form.words[k], given)) then return nil end
  end
  local lead = here == at and #inlines[at].text:match("^[%(%[\194\171\191]*") or 0
  given = given or trimmed(pandoc.text.lower(inlines[at].text:sub(lead + 1)), bend)
  return { at = here, length = lead + (bend == bends.ko and #form.words[#form.words] or #given) }
end

local function linked(inlines, at, last, form)
  local first, content, done = inlines[at].text, pandoc.List {}, pandoc.List {}
  local lead = first:match("^[%(%[\194\171\191]*")
  local rest = inlines[last.at].text:sub(last.length + 1)
  for i = at, last.at do content:insert(inlines[i]:clone()) end
  content[#content].text = content[#content].text:sub(1, last.length)
  content[1].text = content[1].text:sub(#lead + 1)
  if lead ~= "" then done:insert(pandoc.Str(lead)) end
  done:insert(pandoc.Link(content, "glossary.qmd#term-" .. form.term, form.meaning, { class = "term" }))
  if rest ~= "" then done:insert(pandoc.Str(rest)) end
  return done
end

local HOLDS_TEXT = { Emph = true, Strong = true, Quoted = true, Span = true }

local function link_terms(blocks, lang)
  local list, seen, bend = forms(lang), {}, bends[lang] or bends.en
  local beginning = {} -- by word: the forms that may begin with it, which a page asks again and again

  -- Both give what they got, and whether it has changed: only what has goes back to pandoc, which takes time.
  local function inlines_of(inlines)
    local done, i, changed = pandoc.List {}, 1, false
    while i <= #inlines do
      local inline, found, last = inlines[i], nil, nil
      local tag = inline.t
      if tag == "Str" then
        local text = inline.text
        beginning[text] = beginning[text] or beginning_with(text, list, bend)
        for _, form in ipairs(beginning[text]) do
          last = ends_term(form, inlines, i, bend)
          found = last and form
          if found then break end
        end
      elseif HOLDS_TEXT[tag] then
        local content, is_new = inlines_of(inline.content)
        if is_new then inline.content, changed = content, true end
      end
      if found and not seen[found.term] then
        seen[found.term], changed = true, true
        done:extend(linked(inlines, i, last, found))
        i = last.at + 1
      else
        -- What stands inside a longer term is no use of the shorter one.
        for k = i, found and last.at or i do done:insert(inlines[k]) end
        i = (found and last.at or i) + 1
      end
    end
    return done, changed
  end

  local blocks_of

  local function items_of(items)
    local changed = false
    for i, item in ipairs(items) do
      local content, is_new = blocks_of(item)
      if is_new then items[i], changed = content, true end
    end
    return items, changed
  end

  local READ = { Para = inlines_of, Plain = inlines_of, BulletList = items_of, OrderedList = items_of }

  function blocks_of(list_of_blocks)
    local changed = false
    for _, block in ipairs(list_of_blocks) do
      local tag = block.t
      local read = READ[tag]
      if tag == "BlockQuote" then
        read = blocks_of
      elseif tag == "Div" and not block.identifier:match("^%l%l%l%-") then
        local apart = block.classes:find_if(function(class) return class == "cell" or class:match("^callout") end)
        read = not apart and blocks_of
      end
      local content, is_new
      if read then content, is_new = read(block.content) end
      if is_new then block.content, changed = content, true end
    end
    return list_of_blocks, changed
  end

  return blocks_of(blocks)
end

function Pandoc(doc)
  local lang = stringify(doc.meta.lang)
  local course = not quarto and pandoc.json.decode(stringify(doc.meta.course))
  local page = course and root .. "/" .. course.page or quarto.doc.input_file
  local known = course and pandoc.List(course.chapters):map(function(chapter)
    chapter.title, chapter.description = inlines_of(chapter.title), inlines_of(chapter.description)
    return chapter
  end)
  local folder, stem = pandoc.path.directory(page), pandoc.path.split_extension(pandoc.path.filename(page))
  local chapter = chapter_at(page)
  local read, work = 0, 0
  if chapter then read, work = study(chapter) end
  doc.meta["reading-minutes"], doc.meta["work-minutes"] = tostring(read), tostring(work)
  if stem ~= "glossary" and file_text(folder .. "/glossary.qmd") then
    local linked_blocks, changed = link_terms(doc.blocks, lang)
    if changed then doc.blocks = linked_blocks end
  end
  doc.blocks = doc.blocks:walk {
    Div = function(div)
      if not div.classes:includes("chapters") then return nil end
      div.content = chapters(lang, known)
      return div
    end,
  }
  return doc
end
