package markdown

import (
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

var (
	noteRole = regexp.MustCompile(`(^|\s)(doc-)?(footnote|endnote|rearnote)(\s|$)`)
	refRole  = regexp.MustCompile(`(^|\s)(doc-)?noteref(\s|$)`)
	backRole = regexp.MustCompile(`(^|\s)(doc-)?backlink(\s|$)`)
)

// role is what an element is for, as books and accessible pages say.
func role(s *markup.Scanner) string { return s.Attr("epub:type") + " " + s.Attr("role") }

// notesOf finds the ids of the footnotes of a page that refers to some.
func notesOf(src string) map[string]bool {
	if !strings.Contains(src, "noteref") {
		return nil
	}
	ids := map[string]bool{}
	s := markup.NewHTML(src)
	for t := s.Next(); t != markup.End; t = s.Next() {
		if id := s.Attr("id"); t == markup.Open && id != "" && !s.Empty && isNote(s) {
			ids[id] = true
		}
	}
	return ids
}

// isNote reports whether a block is a footnote.
func isNote(s *markup.Scanner) bool {
	return elements[s.Name].in(1<<block|1<<paragraph) && noteRole.MatchString(role(s))
}

// noted is the kind of an element that is a footnote, refers to one, or leads back from one; else it is k.
func (p *page) noted(k kind) kind {
	href := p.s.Attr("href")
	switch {
	case len(p.notes) == 0:
	case k == link && refRole.MatchString(role(p.s)) && p.notes[strings.TrimPrefix(href, "#")]:
		p.w.Raw("[^" + p.o.Notes + href[1:] + "]")
		return skip
	case k == link && len(p.around) > 0 && strings.HasPrefix(href, "#") &&
		(backRole.MatchString(role(p.s)) || p.w.Len() == 0):
		return skip
	case k.in(1<<block|1<<paragraph) && p.opened[table] == 0 && p.notes[p.s.Attr("id")] && isNote(p.s):
		return note
	}
	return k
}
