package doc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/texmath"
)

// Field is what a field of Word shows that keeps no result, by its instruction: the text of a symbol or button, or the
// TeX of a formula.
func Field(instruction string) (text, tex string) {
	words := strings.Fields(instruction)
	switch {
	case len(words) > 2 && words[0] == "MACROBUTTON":
		return strings.Join(words[2:], " "), ""
	case len(words) > 1 && words[0] == "SYMBOL":
		n, err := strconv.ParseUint(words[1], 0, 20)
		font := ""
		if i := slices.Index(words, `\f`); i > 0 && i+1 < len(words) {
			font = strings.Trim(strings.Join(words[i+1:], " "), `"`)
			font, _, _ = strings.Cut(font, `"`)
			font, _, _ = strings.Cut(font, ` \`)
		}
		symbolic := font == "Symbol" || strings.HasPrefix(font, "Wingdings")
		switch {
		case err != nil:
		case symbolic && n < 0x100:
			return Symbol(font, int(n)+0xf000), ""
		case !symbolic && n < 0x100 && !slices.Contains(words, `\u`):
			return charset.Codepage([]byte{byte(n)}, 1252), ""
		default:
			return Symbol(font, int(n)), ""
		}
	case len(words) > 1 && (words[0] == "EQ" || words[0] == "eq"):
		e := equation{rest: strings.TrimSpace(instruction)[2:], separators: ",)"}
		if strings.Contains(instruction, ";") { // the comma is that of decimals
			e.separators = ";)"
		}
		return "", strings.TrimSpace(e.tex(""))
	}
	return "", ""
}

// symbols are the characters of the font Symbol, from 0x20 on; a space is none.
var symbols = []rune(` !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾` +
	`αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼ ` + strings.Repeat(" ", 0x20) +
	`€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓` +
	`◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭`)

// marks are characters of the font Wingdings.
var marks = map[int]string{0xfc: "✓", 0xfb: "✗", 0xa8: "☐", 0xfe: "☑", 0xe0: "→", 0xdf: "←", 0xb7: "•", 0xa7: "▪",
	0x4a: "☺"}

// Symbol is a character of a symbol font; those of such fonts are from 0xf000 on.
func Symbol(font string, n int) string {
	switch {
	case n < 0xf000 || n >= 0xf100:
		return string(rune(n))
	case !strings.EqualFold(font, "Symbol"):
		return marks[n-0xf000]
	case n < 0xf020 || n-0xf020 >= len(symbols):
		return ""
	}
	return strings.TrimSpace(string(symbols[n-0xf020]))
}

// equation is what is left to read of the instruction of a field EQ.
type equation struct {
	rest, separators string
	depth            int // of brackets
}

// tex reads up to one of some characters, outside of brackets.
func (e *equation) tex(until string) string {
	var b strings.Builder
	for e.rest != "" && strings.IndexByte(until, e.rest[0]) < 0 {
		c := e.rest[0]
		switch {
		case c == '\\' && len(e.rest) > 1 && (e.rest[1]|0x20 < 'a' || e.rest[1]|0x20 > 'z'): // a character as it is
			b.WriteString(texmath.Text(e.rest[1:2]))
			e.rest = e.rest[2:]
		case c == '\\':
			b.WriteString(e.element())
		case c == '(' && e.depth < maxBrackets:
			e.rest = e.rest[1:]
			b.WriteString("(" + e.within(")") + ")")
			e.rest = strings.TrimPrefix(e.rest, ")")
		default:
			end := strings.IndexAny(e.rest[1:], `\(`+until)
			if end < 0 {
				end = len(e.rest) - 1
			}
			b.WriteString(texmath.Text(e.rest[:end+1]))
			e.rest = e.rest[end+1:]
		}
	}
	return b.String()
}

const maxBrackets = 100 // in brackets

// within reads what is in brackets.
func (e *equation) within(until string) string {
	e.depth++
	defer func() { e.depth-- }()
	return e.tex(until)
}

// element reads a switch with its options and arguments.
func (e *equation) element() string {
	head, args, ok := strings.Cut(e.rest, "(")
	if !ok || len(head) > 64 || e.depth == maxBrackets {
		e.rest = e.rest[2:]
		return ""
	}
	names := strings.Split(strings.ToLower(strings.ReplaceAll(head[1:], " ", "")), `\`)
	e.rest = args
	var list []string
	for closed := false; e.rest != "" && !closed; {
		list = append(list, strings.TrimSpace(e.within(e.separators)))
		closed = strings.HasPrefix(e.rest, ")")
		e.rest = e.rest[min(1, len(e.rest)):]
	}
	of := func(i int) string {
		if i < len(list) {
			return "{" + list[i] + "}"
		}
		return "{}"
	}
	all := strings.Join(list, ",")
	option := func(prefix string) bool {
		return slices.ContainsFunc(names[1:], func(n string) bool { return strings.HasPrefix(n, prefix) })
	}
	switch names[0] {
	case "f":
		return `\frac` + of(0) + of(1)
	case "r":
		if len(list) > 1 && list[0] != "" {
			return `\sqrt[` + list[0] + "]" + of(1)
		}
		return `\sqrt` + of(len(list)-1)
	case "s":
		if option("do") {
			return "_" + of(0)
		}
		return "^" + of(0)
	case "i":
		sign := `\int`
		if option("su") {
			sign = `\sum`
		} else if option("pr") {
			sign = `\prod`
		}
		return sign + "_" + of(0) + "^" + of(1) + " " + strings.Trim(of(2), "{}")
	case "b":
		return `\left(` + all + `\right)`
	case "x":
		return `\boxed{` + all + "}"
	case "a":
		columns := 1
		for _, n := range names[1:] {
			if c, err := strconv.Atoi(strings.TrimPrefix(n, "co")); err == nil && strings.HasPrefix(n, "co") {
				columns = max(c, 1)
			}
		}
		var rows []string
		for row := range slices.Chunk(list, columns) {
			rows = append(rows, strings.Join(row, " & "))
		}
		return `\begin{matrix}` + strings.Join(rows, ` \\ `) + `\end{matrix}`
	case "o":
		return strings.Join(list, "")
	case "d": // it moves what follows
		return ""
	}
	return all
}
