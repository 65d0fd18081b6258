-- Shared by both engines: what a page knows of the rest of the book. How long it takes to read, the list of chapters on the
-- cover, and links from the first use of a term to its entry in the glossary.

local stringify = pandoc.utils.stringify
-- Minutes. The rate is that at which students read what they will have to know, slower than reading for pleasure [@carver1992];
-- Korean syllables are slowed in the same proportion.
local WORDS_PER_MINUTE, HANGUL_PER_MINUTE = 138, 300
local LOOK, EXERCISE, PROBLEM = 1, 5, 10
local HANGUL = "[\234-\237][\128-\191][\128-\191]"
local root = quarto and quarto.project.directory or "."
local lang -- of this page

local function file_text(path)
  local file = io.open(path, "rb")
  local text = file and file:read("a")
  if file then file:close() end
  return text
end

-- A file of course_book's data, which lies beside the press wherever that is installed.
local function data_text(name)
  local path = "../../course_book/data/" .. name
  return file_text(quarto and quarto.utils.resolve_path(path) or pandoc.path.join { pandoc.path.directory(PANDOC_SCRIPT_FILE), path })
end

-- The rows of a table, or only those of a kind, which is their second cell.
local function rows_of(name, kind)
  local text, rows, row, at = data_text(name):gsub("\r", ""), {}, {}, 1
  if kind then
    local lines = { text:match("^[^\n]*") }
    for line in text:gmatch("\n([^,\n]*," .. kind .. ",[^\n]*)") do lines[#lines + 1] = line end
    text = table.concat(lines, "\n") .. "\n"
  end
  while at <= #text do
    local cell
    if text:sub(at, at) == '"' then
      local from = at + 1
      at = from
      while true do
        local close = text:find('"', at, true)
        if text:sub(close + 1, close + 1) ~= '"' then
          cell, at = text:sub(from, close - 1):gsub('""', '"'), close + 1
          break
        end
        at = close + 2
      end
    else
      local stop = text:find("[,\n]", at) or #text + 1
      cell, at = text:sub(at, stop - 1), stop
    end
    row[#row + 1] = cell
    if text:sub(at, at) ~= "," then rows[#rows + 1], row = row, {} end
    at = at + 1
  end
  local header = table.remove(rows, 1)
  return pandoc.List(rows):map(function(cells)
    local named = {}
    for i, column in ipairs(header) do named[column] = cells[i] or "" end
    return named
  end)
end

-- What blocks of a chapter take, in minutes, from their source: a page says the same before and after its cells have run. Inline code is a
-- value: one word. A figure, a table or a displayed equation is a minute's look, and what is folded is nobody's until it is opened. Exercises and problems
-- come on top.
-- What is asked of thousands of words is asked of plain tables, as JSON tells them: pandoc takes its time to hand over each element.
local function nodes_of(blocks) return pandoc.json.decode(pandoc.write(pandoc.Pandoc(blocks), "json"), false).blocks end

local function study(nodes)
  local words, hangul, looks, work = 0, 0, 0, 0
  local problems = false
  local read

  local function read_all(list)
    for _, one in (list[1] and ipairs or pairs)(list) do if type(one) == "table" then read(one) end end
  end

  function read(node)
    local tag, content = node.t, node.c or node
    if tag == "Str" then
      local plain = content:match("^[\1-\127]*$")
      local rest, syllables = content, 0
      if not plain then rest, syllables = content:gsub(HANGUL, "") end
      hangul = hangul + syllables
      if (plain or rest:gsub("\226[\128-\191][\128-\191]", "")):match("[%w\195-\233]") then words = words + 1 end
    elseif tag == "Code" then
      words = words + 1
    elseif tag == "Math" then
      if content[1].t == "DisplayMath" then looks = looks + 1 end
    elseif tag == "Header" then
      problems = content[2][1]:match("problems$") ~= nil
    elseif tag == "Para" then
      local first = content[1] or {}
      if first.t == "Str" and first.c:match("^{{<") then
        for _, inline in ipairs(content) do if inline.t == "Str" and inline.c:match("/ex%-") then work = work + EXERCISE end end
        return
      end
      -- A problem that its answer follows is no item of a list: **1.** begins it.
      local bold = first.t == "Strong" and first.c[1] or {}
      if problems and bold.t == "Str" and #first.c == 1 and bold.c:match("^%d+%.$") then work = work + PROBLEM end
    elseif tag == "OrderedList" then
      if problems then work = work + PROBLEM * #content[2] end
    elseif tag == "Div" then
      local id, classes = content[1][1], pandoc.List(content[1][2])
      for _, pair in ipairs(content[1][3]) do if pair[1] == "collapse" and pair[2] == "true" then return end end
      if id:match("^fig%-") or id:match("^tbl%-") or classes:includes("later") then looks = looks + 1 end
      if classes:includes("problem") then work = work + PROBLEM end
    end
    if tag ~= "Table" and type(content) == "table" then read_all(content) end
  end

  read_all(nodes)
  return math.max(1, math.ceil(words / WORDS_PER_MINUTE + hangul / HANGUL_PER_MINUTE + LOOK * looks)), work
end

-- What a lab asks for beyond reading stands in its front matter.
local function lab_work(chapter) return tonumber(stringify(chapter.meta.work or "")) or 0 end

-- A page as it was written, or nil where it has no title of its own: then it is unnumbered, and for looking things up.
local function page_at(path) return pandoc.read(((file_text(path) or ""):gsub("{{<", "{{&lt;")), "markdown") end
local function chapter_at(path)
  local chapter = (file_text(path) or ""):match("^%-%-%-.-\ntitle:") and page_at(path)
  return chapter and chapter.meta.title and chapter
end

local function inlines_of(markdown) return pandoc.utils.blocks_to_inlines(pandoc.read(markdown, "markdown").blocks) end

-- What the cover says of each chapter. Quarto does not tell, so that its sources are read.
local function read_chapters()
  local list = pandoc.List {}
  for path in file_text(root .. "/_quarto-" .. lang .. ".yml"):gmatch("chapters/[%w/-]+%.qmd") do
    local chapter = chapter_at(root .. "/" .. path)
    if chapter then
      local read, work = study(nodes_of(chapter.blocks))
      local meta = chapter.meta
      list:insert { path = path, title = meta.title, description = meta.description or {}, minutes = read, work = work + lab_work(chapter) }
    end
  end
  return list
end

local function words_of_page()
  local said = {}
  for _, row in ipairs(rows_of("words.csv")) do said[row.term] = row[lang] end
  return said
end

local function filled(text, counts)
  return (text:gsub("{(%a+)}", function(name) return tostring(math.tointeger(counts[name]) or counts[name]) end))
end

local function time(said, key, counts) return pandoc.Span({ pandoc.Str(filled(said[key], counts)) }, { class = "time" }) end

local function hours(minutes) return minutes > 0 and math.max(1, math.floor(minutes / 60 + 0.5)) or 0 end

local function chapters(known)
  local said = words_of_page()
  local items, reading, working = pandoc.List {}, 0, 0
  for _, chapter in ipairs(known or read_chapters()) do
    local read, work = math.tointeger(chapter.minutes), math.tointeger(chapter.work)
    reading, working = reading + read, working + work
    local first = pandoc.List { pandoc.Link(chapter.title, chapter.path), pandoc.Space(), time(said, "ui-minutes", { n = read }) }
    if work > 0 then first:extend { pandoc.Space(), time(said, "ui-work-minutes", { n = work }) } end
    items:insert { pandoc.Para(first), pandoc.Para(chapter.description) }
  end
  return { pandoc.OrderedList(items), pandoc.Para { time(said, "ui-hours-in-all", { n = hours(reading), m = hours(working) }) } }
end

-- Courses: what each of their sessions asks of a student, put together from the pages that data/courses.csv names.

local function section_of(nodes, id)
  local found, first, level = {}, nil, nil
  for i, node in ipairs(nodes) do
    if node.t == "Header" then
      if node.c[2][1] == id then first, level = i, node.c[1] elseif level and node.c[1] <= level then break end
    end
    if level then found[#found + 1] = node end
  end
  return found, first
end

-- An exercise's title stands in a file of texts, and its id in the cell that a chapter includes.
local function exercise_at(page, name)
  local id = (file_text(root .. "/chapters/cells/" .. page .. "/" .. name .. ".qmd") or ""):match('exercise%("([^"]+)"')
  local texts = data_text("exercises/" .. page .. "." .. lang .. ".toml") or ""
  local at = id and select(2, texts:find("[" .. id .. "]", 1, true))
  if not at then error("courses.csv names an exercise that is not there: " .. page .. "/" .. name) end
  return id, texts:match('title = "(.-)"\n', at)
end

-- What stood on this page before the page was cut in two: a script of both engines leads its addresses on to where it stands now.
local function moved_to(folder, page)
  local ids = pandoc.List {}
  local text = file_text(folder .. "/" .. page .. ".qmd")
  for id in text:gmatch("{#(%w+%-[%w-]+)") do ids:insert(id) end
  for cell in text:gmatch("{{< include ([^%s]+/ex%-[^%s]+) >}}") do
    ids:insert("exercise-" .. file_text(folder .. "/" .. cell):match('exercise%("([^"]+)"'))
  end
  -- A list, since a table of names has another order in every run.
  return pandoc.Div({}, pandoc.Attr("", {}, { { "hidden", "" }, { "data-moved", table.concat(ids, " ") }, { "data-to", page .. ".html" } }))
end

local function packed(inlines) return pandoc.write(pandoc.Pandoc { pandoc.Plain(inlines) }, "json") end
local function unpacked(text) return pandoc.read(text, "json").blocks[1].content end

-- What courses ask of a page: its minutes, and those of the sections that courses.csv names.
local function facts_of(chapter, name)
  local blocks = chapter.blocks
  local nodes = nodes_of(blocks)
  local read, work = study(nodes)
  local facts = { title = packed(chapter.meta.title), read = read, work = work, lab = lab_work(chapter), sections = {} }
  blocks:walk { Header = function(header) facts.problems = header.identifier:match("^.*problems$") or facts.problems end }
  local function section(id)
    local found, first = section_of(nodes, id)
    if first then facts.sections[id] = { title = packed(blocks[first].content), read = study(found) } end
  end
  for _, row in ipairs(rows_of("courses.csv")) do
    for file, ids in row.read:gmatch("([^%s#]+)(#%S*)") do
      if file == name then for id in ids:gmatch("[^#]+") do section(id) end end
    end
  end
  for _, row in ipairs(rows_of("path.csv")) do section(row.section) end
  return facts
end

-- The short path: the sections that data/path.csv names, on whichever pages they stand, and their minutes in all.
local function path_read(known)
  local said, items, total, last = words_of_page(), pandoc.List {}, 0, nil
  local pages = known or {}
  if not known then
    for path in file_text(root .. "/_quarto-" .. lang .. ".yml"):gmatch("chapters/[%w/-]+%.qmd") do
      local chapter, stem = chapter_at(root .. "/" .. path), path:match("([%w-]+)%.qmd$")
      if chapter then pages[stem] = facts_of(chapter, stem) end
    end
  end
  for _, row in ipairs(rows_of("path.csv")) do
    local stem
    for name, page in pairs(pages) do if page.sections[row.section] then stem = name end end
    if not stem then error("path.csv names a section that is not there: #" .. row.section) end
    local section, file = pages[stem].sections[row.section], "chapters/" .. lang .. "/" .. stem .. ".qmd"
    if stem ~= last then items:insert { { pandoc.Plain { pandoc.Link(unpacked(pages[stem].title), file) } }, { pandoc.Plain {} } } end
    last = stem
    local line = items[#items][2][1].content
    if #line > 0 then line:insert(pandoc.LineBreak()) end
    line:extend { pandoc.Link(unpacked(section.title), file .. "#" .. row.section), pandoc.Space(), time(said, "ui-length", { n = section.read }) }
    total = total + section.read
  end
  items = items:map(function(item) return { item[1][1].content, { { item[2][1] } } } end)
  return { pandoc.DefinitionList(items), pandoc.Para { time(said, "ui-path-in-all", { n = math.tointeger(total) or total }) } }, total
end

local function courses_read(folder, titles, known)
  local said, pages, sessions = words_of_page(), known or {}, {}

  local function page_called(name)
    if not pages[name] then
      local chapter = chapter_at(folder .. "/" .. name .. ".qmd") or error("courses.csv names a page that is not there: " .. name)
      pages[name] = facts_of(chapter, name)
    end
    return pages[name]
  end

  -- Entries as items of a list, each with its minutes, and their minutes in all.
  local function listed(entries, line_of)
    local items, minutes = pandoc.List {}, 0
    for entry in entries:gmatch("%S+") do
      local line, read, work = line_of(entry:match("^([^#/]+)(.*)$"))
      if read > 0 then line:extend { pandoc.Space(), time(said, "ui-minutes", { n = read }) } end
      if work > 0 then line:extend { pandoc.Space(), time(said, "ui-work-minutes", { n = work }) } end
      items:insert { pandoc.Plain(line) }
      minutes = minutes + read + work
    end
    return items, minutes
  end

  local function reading(file, ids)
    local page = page_called(file)
    local line, read = unpacked(page.title), 0
    if ids == "" then return pandoc.List { pandoc.Link(line, file .. ".qmd") }, page.read, 0 end
    for id in ids:gmatch("[^#]+") do
      local section = page.sections[id] or error("courses.csv names a section that is not there: #" .. id)
      line:extend { pandoc.Str(read == 0 and " › " or " · "), pandoc.Link(unpacked(section.title), file .. ".qmd#" .. id) }
      read = read + section.read
    end
    return line, read, 0
  end

  local function practice(file, cell)
    local page = page_called(file)
    if cell ~= "" then
      local id, title = exercise_at(file, cell:sub(2))
      return pandoc.List { pandoc.Link(title, file .. ".qmd#exercise-" .. id) }, 0, EXERCISE
    end
    return pandoc.List { pandoc.Link(filled(said["ui-all-of"], { title = stringify(unpacked(page.title)) }), file .. ".qmd#" .. page.problems) }, 0, page.work
  end

  local function lab(file)
    local page = page_called(file)
    return pandoc.List { pandoc.Link(unpacked(page.title), file .. ".qmd") }, page.read, page.lab
  end

  -- Those of the sections that are read, and of the labs.
  local function objectives(entries)
    return rows_of("objectives.csv"):filter(function(goal)
      local file, id = goal.section:match("^(.-)(#.*)$")
      for entry in entries:gmatch("%S+") do
        if entry == file or entry:match("^[^#]+") == file and (entry .. "#"):find(id .. "#", 1, true) then return true end
      end
      return false
    end):map(function(goal) return { pandoc.Plain(inlines_of(goal[lang])) } end)
  end

  for _, row in ipairs(rows_of("courses.csv")) do
    local read, to_read = listed(row.read, reading)
    local tried, to_try = listed(row.practice, practice)
    local done, to_do = listed(row.labs, lab)
    local items = pandoc.List { { { said["ui-in-class"] }, { { pandoc.Plain { time(said, "ui-length", { n = row.class }) } } } } }
    for _, part in ipairs { { "ui-able-to", objectives(row.read .. " " .. row.labs) }, { "ui-read-this", read },
      { "ui-practice-this", tried }, { "ui-lab-this", done } } do
      if #part[2] > 0 then items:insert { { said[part[1]] }, { { pandoc.BulletList(part[2]) } } } end
    end
    sessions[row.session] = pandoc.DefinitionList(items)
    local course = row.session:match("^sec%-(%a+)")
    sessions[course] = sessions[course] or pandoc.List {}
    sessions[course]:insert { id = row.session, counts = { tonumber(row.class), to_read, to_try, to_do } }
  end

  local function cell(text) return { pandoc.Plain { pandoc.Str(text) } } end

  local function overview(course)
    local headers = { "ui-session", "ui-in-class", "ui-read-this", "ui-practice-this", "ui-lab-this" }
    local sums, rows = { 0, 0, 0, 0 }, pandoc.List {}
    for _, session in ipairs(sessions[course]) do
      local line = pandoc.List { { pandoc.Plain { pandoc.Link(titles[session.id], "#" .. session.id) } } }
      for i, minutes in ipairs(session.counts) do
        sums[i] = sums[i] + minutes
        line:insert(cell(minutes > 0 and filled(said["ui-length"], { n = minutes }) or "–"))
      end
      rows:insert(line)
    end
    local last = pandoc.List { cell(said["ui-in-all"]) }
    for _, sum in ipairs(sums) do last:insert(cell(sum > 60 and filled(said["ui-hours"], { n = hours(sum) }) or sum > 0 and filled(said["ui-length"], { n = sum }) or "–")) end
    rows:insert(last)
    local right = pandoc.List { 1, 2, 3, 4 }:map(function() return pandoc.AlignRight end)
    return pandoc.utils.from_simple_table(pandoc.SimpleTable({}, pandoc.List { pandoc.AlignLeft } .. right, { 0, 0, 0, 0, 0 },
      pandoc.List(headers):map(function(key) return cell(said[key]) end), rows))
  end

  return sessions, overview
end

-- The cover's list of chapters; and a session's plan under its heading, where `course` in place of it asks for the table
-- of a course.
local function with_lists(blocks, folder, known, studies, meta)
  local titles, here, sessions, overview = {}, nil, nil, nil
  blocks:walk { Header = function(header) titles[header.identifier] = header.content end }
  return blocks:walk {
    traverse = "topdown",
    Header = function(header) here = header.identifier end,
    Div = function(div)
      if div.classes:includes("chapters") then
        div.content = chapters(known)
        return div, false
      end
      if div.classes:includes("path") then
        local list, minutes = path_read(studies)
        meta["path-minutes"], div.content = tostring(minutes), list
        return div, false
      end
      if not div.classes:includes("session") then return nil end
      if not sessions then sessions, overview = courses_read(folder, titles, studies) end
      local course = div.attributes.course
      if course then return overview(course) end
      div.content = { sessions[here] or error("courses.csv has no session " .. here) }
      return div, false
    end,
  }
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

-- An abbreviation is written in capitals, and only so is it the term: PUE is no "pues". Any other word may begin a sentence.
local function plain(word) return word:match("%u.*%u") and word or pandoc.text.lower(word) end

local function split(text) return pandoc.List(text:gmatch("%S+")):map(plain) end

-- Whether a word as it stands on the page is this one of a term, bent or not. Spanish does not bend what it abbreviates.
local function says(word, given, bend)
  if not word:match("%u") then return bend(word, pandoc.text.lower(given)) end
  return given == word or bend ~= bends.es and bend(word, given)
end

local function first_letter(text) return text:match("^[%z\1-\127\194-\244][\128-\191]*") or "" end

-- What may stand for a term: its words, and the short form in parentheses. The longest come first, by the letter that they
-- begin with.
local function forms()
  local meaning, list = {}, pandoc.List {}
  for _, row in ipairs(rows_of("definitions.csv")) do meaning[row.term] = row[lang] end
  for _, row in ipairs(rows_of("words.csv", "term")) do
    local plain, short = row[lang]:match("^(.-)%s*%((.-)%)$")
    for _, form in ipairs { plain or row[lang], short } do
      list:insert { term = row.term, words = pandoc.List(split(form)), meaning = meaning[row.term] }
    end
  end
  table.sort(list, function(a, b)
    if #a.words ~= #b.words then return #a.words > #b.words end
    return a.term < b.term
  end)
  local by_letter = {}
  for _, form in ipairs(list) do
    local letter = pandoc.text.lower(first_letter(form.words[1]))
    by_letter[letter] = by_letter[letter] or pandoc.List {}
    by_letter[letter]:insert(form)
  end
  return by_letter
end

local function trimmed(text, bend)
  return bend == bends.ko and text or (text:gsub("[%.,;:!%?%)%]\194\187]*$", ""))
end

-- The forms whose words may begin with this one; where a form has only one, this one is all of it.
local NONE = pandoc.List {}
local function beginning_with(text, by_letter, bend)
  local given = text:sub(#text:match("^[%(%[\194\171\191]*") + 1)
  local alone = trimmed(given, bend)
  return (by_letter[pandoc.text.lower(first_letter(given))] or NONE):filter(function(form)
    local word = form.words[1]
    if #form.words == 1 then return says(word, alone, bend) end
    return plain(given) == word or bend ~= bends.ko and says(word, given, bend)
  end)
end

-- Where a form that begins at this place ends: whether its other words follow.
local function ends_term(form, inlines, at, bend)
  local here, given = at, nil
  for k = 2, #form.words do
    here = here + 2
    local str, gap = inlines[here], inlines[here - 1]
    if not str or str.t ~= "Str" or (gap.t ~= "Space" and gap.t ~= "SoftBreak") then return nil end
    given = str.text
    if k == #form.words then given = trimmed(given, bend) end
    if plain(given) ~= form.words[k] and not ((k == #form.words or bend ~= bends.ko) and says(form.words[k], given, bend)) then return nil end
  end
  local lead = here == at and #inlines[at].text:match("^[%(%[\194\171\191]*") or 0
  given = given or trimmed(inlines[at].text:sub(lead + 1), bend)
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

local function link_terms(blocks)
  local by_letter, seen, bend = forms(), {}, bends[lang] or bends.en
  local beginning = {} -- by word: the forms that may begin with it, which a page asks again and again

  -- Both give what they got, and whether it has changed: only what has goes back to pandoc, which takes time.
  local function inlines_of(inlines)
    local done, i, changed = nil, 1, false
    while i <= #inlines do
      local inline, found, last = inlines[i], nil, nil
      local tag = inline.t
      if tag == "Str" then
        local text = inline.text
        beginning[text] = beginning[text] or beginning_with(text, by_letter, bend)
        for _, form in ipairs(beginning[text]) do
          last = ends_term(form, inlines, i, bend)
          found = last and form
          if found then break end
        end
      elseif HOLDS_TEXT[tag] and not (tag == "Span" and inline.classes:includes("unlinked")) then -- a homograph is marked so
        local content, is_new = inlines_of(inline.content)
        if is_new then inline.content, changed = content, true end
      end
      if found and not seen[found.term] then
        seen[found.term], changed = true, true
        done = done or pandoc.List(inlines):filter(function(_, k) return k < i end)
        done:extend(linked(inlines, i, last, found))
        i = last.at + 1
      else
        -- What stands inside a longer term is no use of the shorter one.
        for k = i, done and (found and last.at or i) or 0 do done:insert(inlines[k]) end
        i = (found and last.at or i) + 1
      end
    end
    return done or inlines, changed
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
        -- What is hidden is no text to read: Quarto keeps the titles of its navigation there.
        local apart = block.classes:find_if(function(class) return class == "cell" or class == "hidden" or class:match("^callout") end)
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
  lang = stringify(doc.meta.lang)
  local course = not quarto and pandoc.json.decode(stringify(doc.meta.course))
  local page = course and root .. "/" .. course.page or quarto.doc.input_file
  local known = course and pandoc.List(course.chapters):map(function(chapter)
    chapter.title, chapter.description = inlines_of(chapter.title), inlines_of(chapter.description)
    return chapter
  end)
  local folder, stem = pandoc.path.directory(page), pandoc.path.split_extension(pandoc.path.filename(page))
  local chapter = chapter_at(page)
  local read, work = 0, 0
  if chapter then
    local facts = facts_of(chapter, stem)
    read, work = facts.read, facts.work + facts.lab
    doc.meta.study = pandoc.json.encode(facts)
  else -- a tour takes time, too
    doc.blocks:walk { Div = function(div) if div.classes:includes("later") then read = -1 end end }
    if read < 0 then read = study(nodes_of(page_at(page).blocks)) end
  end
  doc.meta["reading-minutes"], doc.meta["work-minutes"] = tostring(read), tostring(work)
  -- What only instructors read goes first: no term is explained where nobody sees it.
  local answers = doc.meta.answers
  if course then answers = course.answers ~= false end -- the press says so where a page has some
  if not answers then
    doc.blocks = doc.blocks:walk { Div = function(div) return div.classes:includes("answer") and {} or nil end }
  end
  if stem ~= "glossary" and file_text(folder .. "/glossary.qmd") then
    local linked_blocks, changed = link_terms(doc.blocks)
    if changed then doc.blocks = linked_blocks end
  end
  if not course or course.lists then doc.blocks = with_lists(doc.blocks, folder, known, course and course.studies, doc.meta) end
  if quarto and read > 0 then -- our own pages say it beside the title
    local said = words_of_page()
    local times = pandoc.List { time(said, "ui-minutes", { n = read }) }
    if work > 0 then times:extend { pandoc.Space(), time(said, "ui-work-minutes", { n = work }) } end
    doc.blocks:insert(1, pandoc.Para(times))
  end
  local continued = chapter and chapter.meta.continued
  if continued and FORMAT:match("^html") then doc.blocks:insert(moved_to(folder, stringify(continued))) end
  return doc
end
