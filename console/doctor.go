package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

func doctorPages() []page {
	return []page{{path: "/doctor", file: "doctor", nav: "Doctor", key: "h", show: doctorPage}}
}

// diagnosis is what the doctor says of one thing.
type diagnosis struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
	Fix     string `json:"fix"`
	Runbook string `json:"runbook"`
	Message string `json:"message"`
}

// Link is what it is about: a message, dead letters of a topic, a topic, or nothing that has a page.
func (f *diagnosis) Link(v *view) string {
	topic, ok := strings.CutPrefix(f.Check, "topic ")
	switch {
	case f.Message != "":
		return v.URL("/messages/%s", f.Message)
	case ok && f.Runbook == "PawlDeadLetters":
		return v.URL("/dead") + "?" + url.Values{"topic": {topic}}.Encode()
	case ok:
		return v.URL("/topics/%s", topic)
	default:
		return ""
	}
}

func doctorPage(v *view) (any, error) {
	var d struct {
		Findings []diagnosis
		Why      string // there are none
	}
	if _, err := v.get(&d.Findings, nil, "/doctor"); err != nil {
		d.Why = why(err)
	}
	worstFirst(d.Findings)
	return d, nil
}

func worstFirst(found []diagnosis) {
	order := []string{"fail", "warn", "ok", "skip"}
	slices.SortStableFunc(found, func(a, b diagnosis) int {
		return cmp.Compare(slices.Index(order, a.Verdict), slices.Index(order, b.Verdict))
	})
}
