package ooxml

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// wordStyle is what a style says about structure; what it inherits is in it.
type wordStyle struct {
	properties
	bold, italic  bool
	placeholder   bool // it is only there to be replaced
	based, isType string
}

var codeStyle = regexp.MustCompile(
	`source code|html preformatted|verbatim|^(?:code|code block|html code|inline code|plain text code|` +
		`preformatted text|source[_ ]text|teletype)$`)

// wordStyles reads the styles of a document.
func (f *file) wordStyles(part string) (map[string]wordStyle, error) {
	root, err := f.Tree(part)
	if err != nil {
		return nil, err
	}
	styles := map[string]wordStyle{}
	for n := range root.Children {
		if n.Name != "style" {
			continue
		}
		s := wordStyle{based: n.Child("basedOn").Attr("val"), isType: n.Attr("type")}
		name := strings.ToLower(n.Child("name").Attr("val"))
		pr := n.Child("pPr")
		if level, ok := strings.CutPrefix(name, "heading "); ok {
			s.heading = whole(level, 0)
		} else if name == "title" {
			s.heading = 1
		}
		if s.heading == 0 {
			s.heading = outline(pr)
		}
		s.num = pr.Child("numPr", "numId").Attr("val")
		s.level = whole(pr.Child("numPr", "ilvl").Attr("val"), 0)
		if s.heading > 1 && s.level == 0 {
			s.level = s.heading - 1
		}
		if list, n, ok := cutNumber(name); ok && (list == "list bullet" || list == "list number" ||
			list == "list continue") {
			s.deeper = n - 1
		}
		s.quote = (strings.Contains(name, "quot") || name == "block text") && s.isType == "paragraph"
		s.placeholder = name == "placeholder text"
		s.code = codeStyle.MatchString(name)
		if s.isType == "character" {
			rpr := n.Child("rPr")
			s.bold, s.italic = on(rpr.Child("b")), on(rpr.Child("i"))
		}
		styles[n.Attr("styleId")] = s
	}
	for _, id := range slices.Sorted(maps.Keys(styles)) { // always in one order: what one inherits, others may, too
		s := styles[id]
		for based, depth := s.based, 0; based != "" && depth < 10; depth++ {
			b := styles[based]
			if s.heading == 0 {
				s.heading = b.heading
			}
			if s.num == "" && b.num != "" {
				s.num, s.level, s.deeper = b.num, max(s.level, b.level), max(s.deeper, b.deeper)
			}
			s.code, s.quote = s.code || b.code, s.quote || b.quote
			based = b.based
		}
		s.heading = min(s.heading, 6)
		styles[id] = s
	}
	return styles, nil
}

// cutNumber splits the number from the end of a name such as "list bullet 2".
func cutNumber(name string) (string, int, bool) {
	i := strings.LastIndexByte(name, ' ')
	if i < 0 {
		return name, 0, false
	}
	n, err := strconv.Atoi(name[i+1:])
	return name[:i], n, err == nil && n > 0 && n < 10
}

// properties are those of a paragraph that matter.
type properties struct {
	heading     int    // 1 to 6
	num         string // empty: no list
	level       int
	deeper      int // how much further in than its level: "List Bullet 2" is the first level of a list of its own
	code, quote bool
}

// outline is the level of a heading that is stated; 0 if it is none.
func outline(pr *markup.Node) int {
	if level := whole(pr.Child("outlineLvl").Attr("val"), 9); level < 9 {
		return level + 1
	}
	return 0
}

func (w *word) properties(pr *markup.Node) properties {
	p := w.styles[pr.Child("pStyle").Attr("val")].properties
	if level := outline(pr); level > 0 {
		p.heading = min(level, 6)
	}
	if num := pr.Child("numPr"); num != nil {
		if id, ok := num.Child("numId").Lookup("val"); ok {
			p.num = id
		}
		p.level = whole(num.Child("ilvl").Attr("val"), p.level)
	}
	if p.num == "0" || !w.numbers.has(p.num) {
		p.num = ""
	}
	p.level = min(max(p.level, 0), 8)
	return p
}

// numbering are the lists of a document.
type numbering struct {
	lists    map[string]*numbered // by numId
	counters map[string]*[9]int   // by the abstract list, which several share
}

type numbered struct {
	abstract string
	levels   [9]level
	starts   map[int]bool // levels that this list starts again
}

type level struct {
	format, text string
	start        int
}

func (f *file) numbering(part string) (numbering, error) {
	ns := numbering{map[string]*numbered{}, map[string]*[9]int{}}
	root, err := f.Tree(part)
	if err != nil {
		return ns, err
	}
	abstract := map[string][9]level{}
	styled, like := map[string]string{}, map[string]string{} // the lists that define styles; the styles that lists take
	for n := range root.Children {
		switch n.Name {
		case "abstractNum":
			var levels [9]level
			readLevels(n, &levels)
			id := n.Attr("abstractNumId")
			abstract[id] = levels
			styled[n.Child("styleLink").Attr("val")] = id
			like[id] = n.Child("numStyleLink").Attr("val")
		case "num":
			id := n.Child("abstractNumId").Attr("val")
			if style := like[id]; style != "" {
				id = styled[style]
			}
			l := &numbered{abstract: id, levels: abstract[id], starts: map[int]bool{}}
			for o := range n.Children {
				i := whole(o.Attr("ilvl"), -1)
				if o.Name != "lvlOverride" || i < 0 || i > 8 {
					continue
				}
				readLevels(o, &l.levels)
				if start := o.Child("startOverride"); start != nil {
					l.levels[i].start, l.starts[i] = whole(start.Attr("val"), 1), true
				}
			}
			ns.lists[n.Attr("numId")] = l
			if ns.counters[id] == nil {
				ns.counters[id] = new([9]int)
			}
		}
	}
	return ns, nil
}

func readLevels(n *markup.Node, levels *[9]level) {
	for l := range n.Children {
		if i := whole(l.Attr("ilvl"), -1); l.Name == "lvl" && i >= 0 && i <= 8 {
			levels[i] = level{l.Child("numFmt").Attr("val"), l.Child("lvlText").Attr("val"),
				whole(l.Child("start").Attr("val"), 1)}
		}
	}
}

func (ns *numbering) has(num string) bool { return ns.lists[num] != nil }

// next counts a paragraph of a list, and returns its number. Bullets have none.
func (ns *numbering) next(num string, lvl int) (ordered bool, number int) {
	l := ns.lists[num]
	if l == nil {
		return false, 0
	}
	counters := ns.counters[l.abstract]
	if l.starts[lvl] {
		l.starts[lvl] = false
		counters[lvl] = 0
	}
	if counters[lvl] == 0 {
		counters[lvl] = max(max(l.levels[lvl].start, 0)-1, 0)
	}
	counters[lvl]++
	for i := lvl + 1; i < 9; i++ {
		counters[i] = 0
	}
	f := l.levels[lvl].format
	return f != "bullet" && f != "none" && f != "", counters[lvl]
}

// label is the number of a heading as it is shown: "2.1".
func (ns *numbering) label(num string, lvl int) string {
	if ordered, _ := ns.next(num, lvl); !ordered {
		return ""
	}
	return ns.shown(num, lvl)
}

// lettered is the label of the item that was counted last, if it is one of letters or Roman numerals: those of Markdown
// are numbers.
func (ns *numbering) lettered(num string, lvl int) string {
	l := ns.lists[num]
	if l == nil || !strings.HasSuffix(l.levels[lvl].format, "Letter") && !strings.HasSuffix(l.levels[lvl].format, "Roman") {
		return ""
	}
	return ns.shown(num, lvl)
}

// shown is the label of the item that was counted last.
func (ns *numbering) shown(num string, lvl int) string {
	l := ns.lists[num]
	text := l.levels[lvl].text
	for i := range lvl + 1 {
		n := ns.counters[l.abstract][i]
		if n == 0 {
			n = max(l.levels[i].start, 1)
		}
		text = strings.ReplaceAll(text, "%"+strconv.Itoa(i+1), doc.Numeral(n, l.levels[i].format))
	}
	return text
}
