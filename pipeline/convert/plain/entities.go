package plain

import (
	"regexp"
	"strings"
)

// maxEntities bounds how much longer a document becomes by its own entities, in bytes.
const maxEntities = 1 << 20

// declaration is an entity whose value is a text. One whose value names other entities, is elsewhere, or holds markup
// is not read.
var declaration = regexp.MustCompile(`<!ENTITY\s+([\w.:-]+)\s+(?:"((?:[^"<&%]|&#)*)"|'((?:[^'<&%]|&#)*)')\s*>`)

// withoutEntities replaces the entities that a document declares by their values, and drops its document type. Where
// one is not read the text stays as it is.
func withoutEntities(text string) string {
	begin := strings.Index(text, "<!DOCTYPE")
	if begin < 0 {
		return text
	}
	length := strings.Index(text[begin:], "]>")
	if length < 0 || strings.IndexByte(text[begin:begin+length], '[') < 0 {
		return text
	}
	subset, rest := text[begin:begin+length], text[begin+length+2:]
	declared := declaration.FindAllStringSubmatch(subset, -1)
	if len(declared) == 0 || len(declared) != strings.Count(subset, "<!ENTITY") {
		return text
	}
	room := maxEntities
	var pairs []string
	for _, d := range declared {
		reference, value := "&"+d[1]+";", d[2]+d[3]
		room -= strings.Count(rest, reference) * len(value)
		pairs = append(pairs, reference, value)
	}
	if room < 0 {
		return text
	}
	values := strings.NewReplacer(pairs...)
	var b strings.Builder
	b.WriteString(text[:begin])
	for literal := false; ; literal = !literal { // references in CDATA are text
		mark := "<![CDATA["
		if literal {
			mark = "]]>"
		}
		part, after, found := strings.Cut(rest, mark)
		if !literal {
			part = values.Replace(part)
		}
		b.WriteString(part)
		if !found {
			return b.String()
		}
		b.WriteString(mark)
		rest = after
	}
}
