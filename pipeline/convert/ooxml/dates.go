package ooxml

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// dateFormat says what of a point in time a format of Excel shows.
type dateFormat uint8

const (
	noDate   dateFormat = 0
	showDate dateFormat = 1 << iota
	showTime
	showHours // that go beyond a day
)

// cellFormat is how a cell shows a number: as a date, or as digits.
type cellFormat struct {
	date   dateFormat
	number numberFormat
}

// cellFormats reads the formats of cells.
func cellFormats(styles *markup.Node) []cellFormat {
	custom := map[int]cellFormat{}
	for n := range styles.Child("numFmts").Children {
		f := cellFormat{date: dateCode(n.Attr("formatCode"))}
		if f.date == noDate {
			f.number = numberCode(n.Attr("formatCode"))
		}
		custom[whole(n.Attr("numFmtId"), -1)] = f
	}
	var formats []cellFormat
	for xf := range styles.Child("cellXfs").Children {
		id := whole(xf.Attr("numFmtId"), 0)
		f, stated := custom[id]
		if !stated {
			f = cellFormat{builtin(id), numberCode(builtinNumbers[id])}
		}
		formats = append(formats, f)
	}
	return formats
}

func builtin(id int) dateFormat {
	switch {
	case id >= 14 && id <= 17, id >= 27 && id <= 31, id == 36, id >= 50 && id <= 54, id == 57, id == 58:
		return showDate
	case id == 46:
		return showTime | showHours
	case id >= 18 && id <= 21, id >= 32 && id <= 35, id >= 45 && id <= 47, id == 55, id == 56:
		return showTime
	case id == 22:
		return showDate | showTime
	}
	return noDate
}

var (
	elapsed = regexp.MustCompile(`\[[hms]+\]`)
	literal = regexp.MustCompile(`"[^"]*"|\\.|_.|\[[^\]]*\]`)
)

// dateCode reads a format such as `yyyy\-mm\-dd hh:mm;@`.
func dateCode(code string) dateFormat {
	code, _, _ = strings.Cut(strings.ToLower(code), ";")
	var f dateFormat
	if hours := elapsed.ReplaceAllString(code, "h"); hours != code {
		code, f = hours, showHours
	}
	code = literal.ReplaceAllString(code, "")
	first := strings.IndexAny(code, "ydhs0#?") // digits after that are fractions of seconds
	if first < 0 || strings.IndexByte("ydhs", code[first]) < 0 || strings.Contains(code, "general") {
		return noDate
	}
	if strings.ContainsAny(code, "yd") {
		f |= showDate
	}
	if strings.ContainsAny(code, "hs") {
		f |= showTime
	}
	return f
}

// show writes a count of days as a date, a time or both.
func (f dateFormat) show(raw string, since04 bool) string {
	days, err := strconv.ParseFloat(raw, 64)
	if err != nil || days < 0 || days > 2_958_466 || math.IsNaN(days) {
		return ""
	}
	if f&showHours != 0 && f&showDate == 0 {
		seconds := int64(math.Round(days * 86400))
		return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	}
	start := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if since04 {
		start = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if days < 60 && days >= 1 {
		days++ // Excel has a 29 February 1900
	}
	whole := math.Floor(days)
	t := start.AddDate(0, 0, int(whole)).Add(time.Duration(math.Round((days-whole)*86400)) * time.Second)
	switch {
	case f == showTime && days < 1:
		return t.Format("15:04:05")
	case f&showTime == 0 && t.Hour()+t.Minute()+t.Second() == 0:
		return t.Format(time.DateOnly)
	}
	return t.Format(time.DateTime)
}
