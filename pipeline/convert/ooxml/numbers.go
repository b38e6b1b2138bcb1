package ooxml

import (
	"math"
	"strconv"
	"strings"
)

// numberFormat is a format of numbers as Excel shows them (ECMA-376 part 1, 18.8.31): its sections for what is positive
// or all, negative, and zero, unless they have conditions, and for texts. One that is not read is nil: the number is
// shown as it is.
type numberFormat []numberSection

type numberSection struct {
	before, after      string // literal text
	digits             int    // least before the point
	least, most        int    // after the point
	grouped            bool
	exponent           int // least digits of it; 0: none
	percents, thousand int // how often it is multiplied by 100, and divided by 1000
	placeholders       bool
	general            bool     // as many digits as the number has
	inserts            []insert // texts between digits before the point
	condition          string   // such as > or <=
	bound              float64
	largest, over      int  // the most that the denominator of a fraction may be, or what it is; 0: it is none
	mixed              bool // a whole number stands before the fraction
}

// insert is a text in front of so many digits.
type insert struct {
	text   string
	digits int
}

// builtinNumbers are the formats of numbers that files do not spell out.
var builtinNumbers = map[int]string{
	1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??",
	37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 48: "##0.0E+0",
}

// numberCode reads a format such as `"$"#,##0.00;[Red]-0.0%`.
func numberCode(code string) numberFormat {
	var f numberFormat
	if code == "" {
		return nil
	}
	for rest := code; ; {
		section, after, ok := numberSectionOf(rest)
		if !ok {
			return nil
		}
		f = append(f, section)
		if after == "" || len(f) == 4 {
			return f
		}
		rest = after[1:]
	}
}

// numberSectionOf reads a section up to the semicolon, or to the end. ok is false where it holds what is not known.
func numberSectionOf(code string) (s numberSection, rest string, ok bool) {
	point := false
	literal := func(text string) {
		if s.placeholders {
			s.after += text
		} else {
			s.before += text
		}
	}
	for i := 0; i < len(code); i++ {
		switch c := code[i]; c {
		case ';':
			return s, code[i:], true
		case '"':
			end := strings.IndexByte(code[i+1:], '"')
			if end < 0 {
				return s, "", false
			}
			literal(code[i+1 : i+1+end])
			i += end + 1
		case '[': // a currency, a colour, or a condition
			text, _, closed := strings.Cut(code[i+1:], "]")
			symbol, known := s.bracket(text)
			if !closed || !known {
				return s, "", false
			}
			literal(symbol)
			i += len(text) + 1
		case '\\':
			if i++; i < len(code) {
				literal(code[i : i+1])
			}
		case '_', '*': // as much room as the character takes, or as there is
			i++
		case '0', '#', '?':
			if !s.digit(c == '0', point) {
				return s, "", false
			}
		case '.':
			s.placeholders, point = true, true
		case ',':
			switch {
			case i+1 < len(code) && strings.IndexByte("0#?", code[i+1]) >= 0 && s.placeholders:
				s.grouped = true
			case s.placeholders:
				s.thousand++
			default:
				literal(",")
			}
		case '%':
			s.percents++
			literal("%")
		case 'E', 'e':
			for i += 2; i < len(code) && code[i] == '0'; i++ {
				s.exponent++
			}
			if i--; s.exponent == 0 {
				return s, "", false
			}
		case 'G', 'g':
			if !strings.EqualFold(code[i:min(i+7, len(code))], "General") || s.placeholders {
				return s, "", false
			}
			s.placeholders, s.general = true, true
			i += len("General") - 1
		case '/':
			n := len(code[i+1:]) - len(strings.TrimLeft(code[i+1:], "0123456789?#"))
			if !s.fraction(code[i+1 : i+1+n]) {
				return s, "", false
			}
			i += n
		case '@': // the text
			s.placeholders, s.general = true, true
		default:
			literal(string(c))
		}
	}
	return s, "", true
}

// bracket takes what is within brackets, and returns the symbol of a currency. ok is false for what is no condition.
func (s *numberSection) bracket(text string) (symbol string, ok bool) {
	if currency, ok := strings.CutPrefix(text, "$"); ok {
		symbol, _, _ := strings.Cut(currency, "-")
		return symbol, true
	}
	bound := strings.TrimLeft(text, "<>=")
	if bound == text {
		return "", true
	}
	var err error
	s.condition = text[:len(text)-len(bound)]
	s.bound, err = strconv.ParseFloat(bound, 64)
	return "", err == nil
}

// digit takes the place of a digit, and reports whether it may be there.
func (s *numberSection) digit(zero, point bool) bool {
	if s.after != "" {
		if point || s.grouped || s.percents > 0 {
			return false
		}
		s.inserts = append(s.inserts, insert{text: s.after})
		s.after = ""
	}
	s.placeholders = true
	if point {
		if s.most++; zero {
			s.least = s.most
		}
		return true
	}
	for k := range s.inserts {
		s.inserts[k].digits++
	}
	if zero || s.digits > 0 {
		s.digits++
	}
	return true
}

// fraction takes what is under its line, and reports whether digits are above it and nothing else is.
func (s *numberSection) fraction(under string) bool {
	if !s.placeholders || s.after != "" || s.most > 0 || len(under) == 0 || len(under) > 4 || len(s.inserts) > 1 {
		return false
	}
	s.mixed, s.inserts = len(s.inserts) == 1, nil
	s.over, _ = strconv.Atoi(under) // of placeholders, it is none
	s.largest = max(s.over, int(math.Pow10(len(under)))-1)
	return true
}

// section is the one for a number, and whether the number has its sign there.
func (f numberFormat) section(x float64) (s numberSection, signed bool) {
	f = f[:min(len(f), 3)]
	for i, s := range f {
		fits, negative := i == len(f)-1, false
		switch {
		case s.condition != "":
			c := map[string]bool{"<": x < s.bound, ">": x > s.bound, "=": x == s.bound}
			fits = s.condition == "<>" && x != s.bound || s.condition != "<>" && (c[s.condition[:1]] || c[s.condition[1:]])
			negative = s.condition[0] == '<' && s.bound <= 0
		case i == 0:
			fits = fits || x > 0 || x == 0 && len(f) == 2
		case i == 1:
			fits, negative = fits || x < 0, f[0].condition == ""
		}
		if fits {
			return s, !negative
		}
	}
	return numberSection{before: "#####"}, false // as Excel shows what no section is for
}

// text writes a text as Excel shows it: the fourth section is for texts.
func (f numberFormat) text(text string) string {
	if len(f) < 4 {
		return text
	}
	if s := f[3]; s.placeholders {
		return s.before + text + s.after
	}
	return f[3].before
}

// show writes a number as Excel shows it. ok is false where it is none, or has no format.
func (f numberFormat) show(raw string) (text string, ok bool) {
	x, err := strconv.ParseFloat(raw, 64)
	if len(f) == 0 || err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return "", false
	}
	s, signed := f.section(x)
	sign := ""
	if x < 0 && signed {
		sign = "-"
	}
	x = math.Abs(x)
	if !s.placeholders {
		if s.before == "" {
			sign = ""
		}
		return sign + s.before, true
	}
	for range s.percents {
		x *= 100
	}
	for range s.thousand {
		x /= 1000
	}
	text = s.decimal(x)
	if sign != "" && strings.Trim(text, "0.,") == "" {
		sign = "" // it is rounded to nothing
	}
	return sign + s.before + text + s.after, true
}

// decimal writes the digits of a number that is not negative.
func (s numberSection) decimal(x float64) string {
	if s.general {
		return strconv.FormatFloat(x, 'G', 15, 64)
	}
	if s.largest > 0 {
		return s.ratio(x)
	}
	if s.exponent > 0 {
		mantissa, power, _ := strings.Cut(strconv.FormatFloat(x, 'e', s.most, 64), "e")
		digits := power[1:]
		if n := s.exponent - len(digits); n > 0 {
			digits = strings.Repeat("0", n) + digits
		} else if n < 0 && strings.HasPrefix(digits, "0") {
			digits = digits[1:]
		}
		return mantissa + "E" + power[:1] + digits
	}
	// Fifteen digits are what Excel keeps: the others are of the binary form, and 1.005 would be rounded down.
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 15, 64), 64)
	scale := math.Pow(10, float64(s.most))
	if rounded := math.Floor(short*scale+0.5+1e-9) / scale; short*scale < 1e15 {
		short = rounded
	}
	whole, part, _ := strings.Cut(strconv.FormatFloat(short, 'f', s.most, 64), ".")
	for len(part) > s.least && part[len(part)-1] == '0' {
		part = part[:len(part)-1]
	}
	if whole == "0" && s.digits == 0 && (part != "" || s.least == 0 && s.most == 0) {
		whole = ""
	}
	if n := s.digits - len(whole); n > 0 {
		whole = strings.Repeat("0", n) + whole
	}
	for _, in := range s.inserts {
		if at := len(whole) - in.digits; at > 0 {
			whole = whole[:at] + in.text + whole[at:]
		}
	}
	for at := len(whole) - 3; s.grouped && at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if part != "" {
		return whole + "." + part
	}
	return whole
}

// ratio writes a number as a fraction, by the last of its convergents that fits.
func (s numberSection) ratio(x float64) string {
	whole, over, under := 0.0, 0.0, float64(s.over)
	if s.mixed {
		whole, x = math.Floor(x), x-math.Floor(x)
	}
	if under > 0 {
		over = math.Round(x * under)
	} else {
		over, under = math.Floor(x), 1
		for p, q, rest := 1.0, 0.0, x-over; rest > 5e-8; {
			a := math.Floor(1 / rest)
			rest = 1/rest - a
			nextOver, nextUnder := a*over+p, a*under+q
			if nextUnder > float64(s.largest) {
				break
			}
			p, q, over, under = over, under, nextOver, nextUnder
		}
	}
	if s.mixed && over == under {
		whole, over = whole+1, 0
	}
	fraction := strconv.FormatFloat(over, 'f', 0, 64) + "/" + strconv.FormatFloat(under, 'f', 0, 64)
	number := strconv.FormatFloat(whole, 'f', 0, 64)
	switch {
	case !s.mixed:
		return fraction
	case over == 0:
		return number
	case whole == 0 && s.digits == 0:
		return fraction
	}
	return number + " " + fraction
}
