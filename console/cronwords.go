package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronWords says in words when a cron expression fires. What it has no words for is said field by field.
func cronWords(expr, lang string) string {
	macros := map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
		"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}
	if full, ok := macros[strings.ToLower(strings.TrimSpace(expr))]; ok {
		expr = full
	}
	f := strings.Fields(strings.ToUpper(expr))
	if len(f) == 5 {
		f = append([]string{"0"}, f...)
	}
	if len(f) != 6 {
		return expr
	}
	say := func(text string, args ...any) string { return translate(lang, text, args...) }
	parts := []string{clockWords(f[0], f[1], f[2], say)}
	if f[3] != "*" && f[3] != "?" {
		parts = append(parts, say("on day %s of the month", f[3]))
	}
	if f[5] != "*" && f[5] != "?" {
		days := names(f[5], "SUN MON TUE WED THU FRI SAT", 0)
		if f[3] != "*" && f[3] != "?" {
			parts = append(parts, say("or on %s", days.in(weekdayNames[lang], lang)))
		} else {
			parts = append(parts, say("on %s", days.in(weekdayNames[lang], lang)))
		}
	}
	if f[4] != "*" {
		months := names(f[4], "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1)
		parts = append(parts, say("in %s", months.in(monthNames[lang], lang)))
	}
	if lang == zh {
		slices.Reverse(parts)
		return strings.Join(parts, "")
	}
	return strings.Join(parts, ", ")
}

var weekdayNames = map[string][]string{
	english: {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
	zh:      {"周日", "周一", "周二", "周三", "周四", "周五", "周六"},
}

var monthNames = map[string][]string{
	english: {"", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
		"November", "December"},
	zh: {"", "一月", "二月", "三月", "四月", "五月", "六月", "七月", "八月", "九月", "十月", "十一月", "十二月"},
}

// clockWords are the time of the day.
func clockWords(second, minute, hour string, say func(string, ...any) string) string {
	m, minuteErr := strconv.Atoi(minute)
	every, stepped := strings.CutPrefix(minute, "*/")
	everyHour, hourStepped := strings.CutPrefix(hour, "*/")
	switch {
	case second != "0":
		return say("seconds %s, minutes %s, hours %s", second, minute, hour)
	case minute == "*" && hour == "*":
		return say("every minute")
	case stepped && hour == "*":
		return say("every %s minutes", every)
	case minuteErr != nil:
		return say("minutes %s, hours %s", minute, hour)
	case hour == "*":
		return say("each hour at minute %d", m)
	case hourStepped:
		return say("every %s hours at minute %d", everyHour, m)
	}
	var times []string
	spans := false
	for h := range strings.SplitSeq(hour, ",") {
		from, to, ranged := strings.Cut(h, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return say("minutes %s, hours %s", minute, hour)
		}
		text := fmt.Sprintf("%02d:%02d", a, m)
		if b, err := strconv.Atoi(to); ranged && err == nil {
			spans, text = true, say("each hour from %s to %s", text, fmt.Sprintf("%02d:%02d", b, m))
		} else if ranged {
			return say("minutes %s, hours %s", minute, hour)
		}
		times = append(times, text)
	}
	if spans {
		return strings.Join(times, ", ")
	}
	return say("at %s", strings.Join(times, ", "))
}

// named are values of a field by number, and what has no number as it is written.
type named [][2]string

// names reads the items of a field.
func names(field, known string, first int) (all named) {
	number := func(s string) string {
		if i := slices.Index(strings.Fields(known), s); i >= 0 {
			return strconv.Itoa(i + first)
		}
		if s == "7" && first == 0 {
			return "0"
		}
		return s
	}
	for item := range strings.SplitSeq(field, ",") {
		from, to, _ := strings.Cut(item, "-")
		all = append(all, [2]string{number(from), number(to)})
	}
	return all
}

func (n named) in(words []string, lang string) string {
	word := func(s string) string {
		if i, err := strconv.Atoi(s); err == nil && i < len(words) {
			return words[i]
		}
		return s
	}
	var all []string
	for _, pair := range n {
		text := word(pair[0])
		if pair[1] != "" {
			text = translate(lang, "%s to %s", text, word(pair[1]))
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
