package extract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/crawl/extract"
)

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"EUR 1.234,50": "1234.50", "$1,234.50": "1234.50", "12,5 kg": "12.5", "1,234": "1234", "1.5": "1.5",
		"1.234":     "1.234",
		"1.234.567": "1234567", "1,234,567.": "1234567", "from -7 to 9": "-7", "1 234,00 zł": "1234.00",
		"1'000": "1000",
		"007":   "7", "0.50": "0.50", "0": "0", "+3": "3", "10, 20": "10", "10 20 30": "10", "12 345 678": "12345678",
	} {
		got, err := one(t, extract.Rule{CSS: "p", As: extract.AsNumber}, "<p>"+text)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q is %v, %v, want %s", text, got, err, want)
		}
	}
}

func one(t *testing.T, r extract.Rule, body string) (any, error) {
	t.Helper()
	s, err := extract.New(map[string]extract.Rule{"x": r}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	items, _, err := s.Read(page, false, []byte(body))
	if err != nil {
		return nil, err
	}
	return items[0]["x"], nil
}

// A value that is required and not there, or that does not have its form, is an error that names the field.
func TestWrongValues(t *testing.T) {
	for want, r := range map[string]extract.Rule{
		"field x: it is required":               {CSS: "h1", Required: true},
		`field x: there is no number in "none"`: {CSS: "p", As: extract.AsNumber},
		`field x: ":" is not a URL`:             {CSS: "i", As: extract.AsURL},
	} {
		if _, err := one(t, r, "<p>none</p><i>:</i>"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := extract.New(map[string]extract.Rule{"x": {CSS: "a[", Remove: "(", As: "date"}}, nil, nil)
	for _, want := range []string{"css", "remove", `as "date"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
}
