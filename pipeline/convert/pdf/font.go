package pdf

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/pawl-dev/pawl/markdown/charset"
)

// font tells what characters the codes of a text stand for, and how wide they are.
type font struct {
	wide     bool // two bytes a code
	unicode  map[int]string
	widths   map[int]float64 // in thousandths of the size
	standard float64         // width of the others
	bold     bool
	italic   bool
	mono     bool // all characters are equally wide, as those of code are
}

func (f *file) font(d dict) *font {
	t := &font{unicode: map[int]string{}, widths: map[int]float64{}, standard: 500}
	base := strings.ToLower(string(f.name(d["BaseFont"])))
	named := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(base, w) })
	}
	t.bold = named("bold", "black", "heavy", "cmbx", "-bd", "demi")
	t.italic = named("italic", "oblique", "cmti")
	t.mono = named("courier", "mono", "consolas", "menlo", "cmtt")
	if f.name(d["Subtype"]) == "Type0" {
		t.wide = true
		if kids := f.list(d["DescendantFonts"]); len(kids) > 0 {
			f.wideWidths(t, f.dict(kids[0]))
		}
	} else {
		t.builtIn(base)
		f.simple(t, d)
	}
	if s, ok := f.get(d["ToUnicode"]).(*stream); ok {
		if data, err := f.data(s); err == nil {
			t.readMap(data)
		}
	}
	return t
}

// wideWidths reads the widths of a font with codes of two bytes: lists that follow their first code, or ranges.
func (f *file) wideWidths(t *font, d dict) {
	t.standard = 1000
	if w := f.num(d["DW"]); w > 0 {
		t.standard = w
	}
	list := f.list(d["W"])
	for i := 0; i+1 < len(list); {
		first := int(f.num(list[i]))
		if ws := f.list(list[i+1]); ws != nil {
			for j, w := range ws {
				t.widths[first+j] = f.num(w)
			}
			i += 2
			continue
		}
		if i+2 >= len(list) {
			return
		}
		last := int(f.num(list[i+1]))
		for c := first; c <= last && c-first < 65536; c++ {
			t.widths[c] = f.num(list[i+2])
		}
		i += 3
	}
}

// simple reads the encoding and the widths of a font with codes of one byte.
func (f *file) simple(t *font, d dict) {
	first := int(f.num(d["FirstChar"]))
	for i, w := range f.list(d["Widths"]) {
		t.widths[first+i] = f.num(w)
	}
	encoding := f.name(d["Encoding"])
	e := f.dict(d["Encoding"])
	if e != nil {
		encoding = f.name(e["BaseEncoding"])
	}
	table := "windows-1252"
	if encoding == "MacRomanEncoding" {
		table = "macintosh"
	}
	var codes [224]byte
	for i := range codes {
		codes[i] = byte(32 + i)
	}
	for i, r := range []rune(charset.As(codes[:], table)) {
		t.unicode[32+i] = string(r)
	}
	if table == "windows-1252" {
		for _, unused := range []int{127, 129, 141, 143, 144, 157} {
			t.unicode[unused] = "•" // as the format says of WinAnsiEncoding
		}
	}
	if encoding == "" {
		t.unicode['\''], t.unicode['`'] = "’", "‘"
	}
	code := 0
	for _, v := range f.list(e["Differences"]) {
		switch v := f.get(v).(type) {
		case float64:
			code = int(v)
		case name:
			if s := glyph(string(v)); s != "" {
				t.unicode[code] = s
			}
			code++
		}
	}
}

// readMap reads a map from codes to characters.
func (t *font) readMap(data []byte) {
	l := lexer{b: data}
	var args []any
	for {
		v := l.next()
		o, ok := v.(op)
		if !ok {
			args = append(args, v)
			continue
		}
		switch o {
		case "":
			return
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				from, _ := args[i].(text)
				to, _ := args[i+1].(text)
				t.unicode[number(from)] = utf16Text(to)
			}
		case "endbfrange":
			for i := 0; i+2 < len(args); i += 3 {
				t.addRange(args[i], args[i+1], args[i+2])
			}
		}
		args = args[:0]
	}
}

func (t *font) addRange(from, to, what any) {
	f, _ := from.(text)
	l, _ := to.(text)
	first, last := number(f), min(number(l), number(f)+65535)
	switch what := what.(type) {
	case text:
		base := []rune(utf16Text(what))
		if len(base) == 0 {
			return
		}
		for c := first; c <= last; c++ {
			t.unicode[c] = string(base)
			base[len(base)-1]++
		}
	case []any:
		for i, v := range what {
			s, _ := v.(text)
			t.unicode[first+i] = utf16Text(s)
		}
	}
}

func number(t text) (n int) {
	for i := range min(len(t), 4) {
		n = n<<8 | int(t[i])
	}
	return n
}

func utf16Text(t text) string {
	units := make([]uint16, 0, len(t)/2)
	for i := 0; i+1 < len(t); i += 2 {
		units = append(units, uint16(t[i])<<8|uint16(t[i+1]))
	}
	return string(utf16.Decode(units))
}

// show calls each for the characters of a text, with their widths.
func (t *font) show(s text, each func(chars string, width float64, space bool)) {
	step := 1
	if t.wide {
		step = 2
	}
	for i := 0; i+step <= len(s); i += step {
		code := int(s[i])
		if t.wide {
			code = code<<8 | int(s[i+1])
		}
		w, ok := t.widths[code]
		if !ok {
			w = t.standard
		}
		each(t.unicode[code], w, !t.wide && code == 32)
	}
}

// glyph is the character of a glyph's name.
func glyph(n string) string {
	n, _, _ = strings.Cut(n, ".")
	if len([]rune(n)) == 1 {
		return n
	}
	if s, ok := glyphs[n]; ok {
		return s
	}
	for _, prefix := range []string{"uni", "u"} {
		if hex, ok := strings.CutPrefix(n, prefix); ok && len(hex) >= 4 {
			if r, err := strconv.ParseUint(hex[:min(len(hex), 6)], 16, 32); err == nil {
				return string(rune(r))
			}
		}
	}
	for accent, mark := range map[string]string{"acute": "\u0301", "grave": "\u0300", "circumflex": "\u0302",
		"dieresis": "\u0308", "tilde": "\u0303", "caron": "\u030c", "cedilla": "\u0327", "ring": "\u030a"} {
		if letter, ok := strings.CutSuffix(n, accent); ok && len(letter) == 1 {
			return charset.Composed(letter + mark)
		}
	}
	return ""
}

var glyphs = func() map[string]string {
	m := map[string]string{"space": " ", "nbspace": " "}
	const list = `exclam ! quotedbl " numbersign # dollar $ percent % ampersand & quotesingle ' quoteright ’ quoteleft ‘ parenleft (
parenright ) asterisk * plus + comma , hyphen - minus − period . slash / zero 0 one 1 two 2 three 3 four 4 five 5 six 6 seven 7
eight 8 nine 9 colon : semicolon ; less < equal = greater > question ? at @ bracketleft [ backslash \ bracketright ]
asciicircum ^ underscore _ grave ` + "`" +
		` braceleft { bar | braceright } asciitilde ~ bullet • endash – emdash — quotedblleft “
quotedblright ” quotedblbase „ quotesinglbase ‚ ellipsis … dagger † daggerdbl ‡ fi fi fl fl ff ff ffi ffi ffl ffl Euro € sterling £
yen ¥ cent ¢ section § paragraph ¶ copyright © registered ® trademark ™ degree ° plusminus ± multiply × divide ÷ germandbls ß
ae æ AE Æ oe œ OE Œ oslash ø Oslash Ø aring å Aring Å guillemotleft « guillemotright » guilsinglleft ‹ guilsinglright › exclamdown ¡
questiondown ¿ periodcentered · mu µ onesuperior ¹ twosuperior ² threesuperior ³ onehalf ½ onequarter ¼ threequarters ¾ dotlessi ı
lslash ł Lslash Ł alpha α beta β gamma γ delta δ epsilon ε lambda λ pi π sigma σ omega ω Delta Δ Omega Ω Sigma Σ arrowright →
arrowleft ← lessequal ≤ greaterequal ≥ notequal ≠ infinity ∞ summation ∑ integral ∫ radical √ approxequal ≈ partialdiff ∂ checkmark ✓
sfthyphen - bulletoperator ∙ blacksquare ■ square □ triangleright ▷ filledbox ■ openbullet ◦ endash –`
	fields := strings.Fields(list)
	for pair := range slices.Chunk(fields, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}()
