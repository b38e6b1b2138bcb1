package pdf

import (
	"context"
	"math"
	"strings"
)

// matrix is [a b c d e f] of the format.
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// piece is a text that was shown at once: a word, or several.
type piece struct {
	x, y, end float64
	size      float64
	font      *font
	object    int // counts the text objects of a page: the cells of a table are in one each
	text      string
	link      string
}

// reader carries out the operators of a page that are about text.
type reader struct {
	*file
	ctx    context.Context
	fonts  map[ref]*font
	pieces []piece
	rules  []rule
	object int
	ops    int
}

// state is what q saves and Q brings back.
type state struct {
	ctm                               matrix
	font                              *font
	size, char, word, scale, lead, up float64
}

const (
	maxForms = 12        // forms in forms
	maxOps   = 5_000_000 // of a page
)

// machine carries out one content stream.
type machine struct {
	*reader
	lexer     lexer
	resources dict
	depth     int // of forms
	state
	stack    []state
	tm, line matrix
	args     []any

	drawn []rule // of the path so far
	area  bool   // it has a rectangle that is no rule, unless its edge is drawn

	penX, penY, startX, startY float64
}

// content carries out a content stream.
func (r *reader) content(data []byte, resources dict, ctm matrix, depth int) error {
	m := &machine{
		reader: r, lexer: lexer{b: data}, resources: resources, depth: depth, state: state{ctm: ctm, scale: 1},
		tm: identity, line: identity,
	}
	for {
		v := m.lexer.next()
		o, ok := v.(op)
		if !ok {
			if len(m.args) < 64 {
				m.args = append(m.args, v)
			}
			continue
		}
		if r.ops++; r.ops&0x3fff == 0 && r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if o == "" || r.ops > maxOps {
			return nil
		}
		if err := m.carryOut(o); err != nil {
			return err
		}
		m.args = m.args[:0]
	}
}

// arg is an operand of the operator; zero if it is missing or of another type.
func arg[T any](m *machine, i int) (v T) {
	if i < len(m.args) {
		v, _ = m.args[i].(T)
	}
	return v
}

func (m *machine) num(i int) float64 { return arg[float64](m, i) }

func (m *machine) matrix() matrix {
	return matrix{m.num(0), m.num(1), m.num(2), m.num(3), m.num(4), m.num(5)}
}

func shift(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }

// nextLine moves to a line relative to the beginning of the one before.
func (m *machine) nextLine(x, y float64) {
	m.line = shift(x, y).times(m.line)
	m.tm = m.line
}

// carryOut carries out an operator.
func (m *machine) carryOut(o op) error {
	switch o {
	case "q":
		if len(m.stack) < 1000 {
			m.stack = append(m.stack, m.state)
		}
	case "Q":
		if n := len(m.stack); n > 0 {
			m.state, m.stack = m.stack[n-1], m.stack[:n-1]
		}
	case "cm":
		m.ctm = m.matrix().times(m.ctm)
	case "Do":
		return m.form(arg[name](m, 0))
	case "BI":
		m.lexer.inlineImage()
	case "m", "l", "h", "re", "S", "s", "B", "B*", "b", "b*", "f", "F", "f*", "n":
		m.path(o)
	case "BT":
		m.object++
		m.tm, m.line = identity, identity
	case "Tf":
		m.font, m.size = m.fontOf(arg[name](m, 0)), m.num(1)
	case "Tc":
		m.char = m.num(0)
	case "Tw":
		m.word = m.num(0)
	case "Tz":
		m.scale = m.num(0) / 100
	case "TL":
		m.lead = m.num(0)
	case "Ts":
		m.up = m.num(0)
	case "Td":
		m.nextLine(m.num(0), m.num(1))
	case "TD":
		m.lead = -m.num(1)
		m.nextLine(m.num(0), m.num(1))
	case "Tm":
		m.line = m.matrix()
		m.tm = m.line
	case "T*":
		m.nextLine(0, -m.lead)
	case "Tj":
		m.show(arg[text](m, 0))
	case "'":
		m.nextLine(0, -m.lead)
		m.show(arg[text](m, 0))
	case "\"":
		m.word, m.char = m.num(0), m.num(1)
		m.nextLine(0, -m.lead)
		m.show(arg[text](m, 2))
	case "TJ":
		for _, v := range arg[[]any](m, 0) {
			switch v := v.(type) {
			case text:
				m.show(v)
			case float64:
				m.tm = shift(-v/1000*m.size*m.scale, 0).times(m.tm)
			}
		}
	}
	return nil
}

// inlineImage passes over a picture within the stream.
func (l *lexer) inlineImage() {
	for i := l.i; i+2 < len(l.b); i++ {
		if l.b[i] == 'E' && l.b[i+1] == 'I' && isSpace(l.b[i-1]) && isSpace(l.b[i+2]) {
			l.i = i + 2
			return
		}
	}
	l.i = len(l.b)
}

// form carries out a stream that is used like an operator.
func (m *machine) form(n name) error {
	s, ok := m.get(m.dict(m.resources["XObject"])[n]).(*stream)
	if !ok || m.name(s.dict["Subtype"]) != "Form" || m.depth >= maxForms {
		return nil
	}
	data, err := m.data(s)
	if err != nil {
		return err
	}
	ctm, resources := m.ctm, m.resources
	if list := m.list(s.dict["Matrix"]); len(list) == 6 {
		var own matrix
		for i, v := range list {
			own[i] = m.file.num(v)
		}
		ctm = own.times(ctm)
	}
	if own := m.dict(s.dict["Resources"]); own != nil {
		resources = own
	}
	return m.content(data, resources, ctm, m.depth+1)
}

func (m *machine) fontOf(n name) *font {
	v := m.dict(m.resources["Font"])[n]
	at, ok := v.(ref)
	if !ok {
		if d := m.dict(v); d != nil {
			return m.file.font(d)
		}
		return nil
	}
	if m.fonts[at] == nil {
		m.fonts[at] = m.file.font(m.dict(v))
	}
	return m.fonts[at]
}

// show writes a text where the matrix is, and moves on by its width.
func (m *machine) show(t text) {
	if m.font == nil {
		return
	}
	at := shift(0, m.up).times(m.tm).times(m.ctm)
	var b strings.Builder
	width := 0.0
	m.font.show(t, func(chars string, w float64, space bool) {
		b.WriteString(chars)
		width += (w/1000*m.size + m.char) * m.scale
		if space {
			width += m.word * m.scale
		}
	})
	m.tm = shift(width, 0).times(m.tm)
	end := shift(0, m.up).times(m.tm).times(m.ctm)
	size := m.size * math.Hypot(at[2], at[3])
	if size == 0 || b.Len() == 0 {
		return
	}
	m.pieces = append(m.pieces, piece{
		x: at[4], y: at[5], end: math.Max(end[4], at[4]), size: math.Abs(size), font: m.font, object: m.object,
		text: b.String(),
	})
}

// links gives the pieces below links their targets.
func (r *reader) links(p page) {
	for _, v := range r.list(p.dict["Annots"]) {
		a := r.dict(v)
		uri, _ := r.get(r.dict(a["A"])["URI"]).(text)
		rect := r.list(a["Rect"])
		if r.name(a["Subtype"]) != "Link" || uri == "" || len(rect) != 4 {
			continue
		}
		x0, y0, x1, y1 := r.num(rect[0]), r.num(rect[1]), r.num(rect[2]), r.num(rect[3])
		x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
		for i := range r.pieces {
			q := &r.pieces[i]
			if mid := (q.x + q.end) / 2; mid >= x0 && mid <= x1 && q.y+q.size/3 >= y0 && q.y+q.size/3 <= y1 {
				q.link = string(uri)
			}
		}
	}
}
