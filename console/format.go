package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
)

// formats are what templates write figures with.
var formats = template.FuncMap{
	"num": num, "span": span, "iso": iso, "utc": utc, "short": short, "bytes": size, "percent": percent,
	"join": strings.Join, "dict": dict, "text": text, "since": since, "between": between,
	"body": func(m operate.Message) *bodyView { return bodyOf(&m, "text") }, "glance": glance, "rate": rate,
}

// num writes a count with its thousands apart.
func num(n any) string {
	s := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// span writes seconds as people say them.
func span(seconds any) string {
	var s float64
	switch n := seconds.(type) {
	case float64:
		s = n
	case *float64:
		if n == nil {
			return "–"
		}
		s = *n
	case int64:
		s = float64(n)
	case time.Duration:
		s = n.Seconds()
	default:
		return fmt.Sprint(n)
	}
	switch {
	case s < 0:
		return "–" + span(-s)
	case s == 0:
		return "0 s"
	case s < 1:
		return strconv.FormatFloat(math.Round(s*1000), 'f', -1, 64) + " ms"
	case s < 10:
		return strconv.FormatFloat(math.Round(s*10)/10, 'f', -1, 64) + " s"
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 172800:
		return fmt.Sprintf("%.0f h", s/3600)
	default:
		return fmt.Sprintf("%.0f d", s/86400)
	}
}

// when is a time or a pointer to one; false: none.
func when(t any) (time.Time, bool) {
	switch t := t.(type) {
	case time.Time:
		return t, !t.IsZero()
	case *time.Time:
		if t != nil {
			return *t, !t.IsZero()
		}
	}
	return time.Time{}, false
}

// iso writes a time for a browser.
func iso(t any) string {
	if at, ok := when(t); ok {
		return at.UTC().Format(time.RFC3339Nano)
	}
	return ""
}

// utc writes a time as people read it.
func utc(t any) string {
	if at, ok := when(t); ok {
		return at.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	return "–"
}

// since is how long ago a time is.
func since(t any, now time.Time) string {
	if at, ok := when(t); ok {
		return span(now.Sub(at).Seconds())
	}
	return "–"
}

// short is the end of an id, by which people tell ids of one time apart.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return id[:8] + "…" + id[len(id)-4:]
}

// size writes a number of bytes.
func size(n int) string {
	switch {
	case n < 10_000:
		return num(n) + " B"
	case n < 10_000_000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
}

func percent(f float64) string { return fmt.Sprintf("%.1f %%", f*100) }

// text is what a pointer points at.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// dict makes a map of pairs, for a template that takes several things.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// between is how long something took.
func between(from, to time.Time) string { return span(to.Sub(from).Seconds()) }

// glance is the beginning of a body, in one line.
func glance(m operate.Message) string {
	if m.BodyBase64 != nil {
		return "(" + size(len(*m.BodyBase64)*3/4) + ")"
	}
	line := strings.Join(strings.Fields(bodyOf(&m, "text").Text), " ")
	if r := []rune(line); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return line
}

// rate writes how many a second.
func rate(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 10:
		return strconv.FormatFloat(f, 'g', 2, 64)
	default:
		return num(int64(f + 0.5))
	}
}
