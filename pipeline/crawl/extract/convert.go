package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// The forms that a value may be converted to.
const (
	AsText   = "text"
	AsNumber = "number" // the first number in the text: 1,234.50 and 1.234,50 are 1234.50
	AsURL    = "url"    // absolute
)

// field is a selector, and what is done with its values.
type field struct {
	find     selector
	all      bool
	remove   *regexp.Regexp // nil: nothing
	as       string
	required bool
}

func compileField(r Rule) (f field, err error) {
	var errs []error
	f.all = r.All
	f.find, err = compile(r)
	errs = append(errs, err)
	if f.as, f.required = r.As, r.Required; r.Remove != "" {
		if f.remove, err = regexp.Compile(r.Remove); err != nil {
			errs = append(errs, fmt.Errorf("remove %q: %w", r.Remove, err))
		}
	}
	switch r.As {
	case "", AsText, AsNumber, AsURL:
	default:
		errs = append(errs, fmt.Errorf("as %q: it is %s, %s or %s", r.As, AsText, AsNumber, AsURL))
	}
	return f, errors.Join(errs...)
}

// read finds the values in a document, in their form.
func (f *field) read(base *url.URL, d *document) ([]any, error) {
	values, err := f.find(d)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 && f.required {
		return nil, errors.New("it is required, and not there")
	}
	if !f.all && len(values) > 1 {
		values = values[:1]
	}
	for i, v := range values {
		if values[i], err = f.convert(base, v); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// convert gives a value its form. Values of JSON that are no texts stay as they are.
func (f *field) convert(base *url.URL, v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return v, nil
	}
	if f.remove != nil {
		text = strings.TrimSpace(f.remove.ReplaceAllString(text, ""))
	}
	switch f.as {
	case AsNumber:
		return number(text)
	case AsURL:
		u, err := base.Parse(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a URL", text)
		}
		return u.String(), nil
	}
	return text, nil
}

var numbers = regexp.MustCompile(`[-+]?\d+(?:[.,']\d+|[ \x{a0}\x{202f}]\d{3}\b)*`)

// number reads the first number of a text. Of points and commas the last kind is the decimal one, unless it comes more
// than once, or it is a comma with three digits after it.
func number(text string) (json.Number, error) {
	found := numbers.FindString(text)
	digits := strings.Map(func(r rune) rune {
		if strings.ContainsRune("+'\u00a0\u202f ", r) {
			return -1
		}
		return r
	}, found)
	if digits == "" {
		return "", fmt.Errorf("there is no number in %q", text)
	}
	at := strings.LastIndexAny(digits, ".,")
	if at < 0 {
		return plain(digits), nil
	}
	mark, rest := digits[at:at+1], digits[at+1:]
	whole := strings.NewReplacer(".", "", ",", "").Replace(digits[:at])
	alone := !strings.ContainsAny(digits[:at], ".,")
	if strings.Count(digits, mark) > 1 || mark == "," && alone && len(rest) == 3 {
		return plain(whole + rest), nil
	}
	return plain(whole) + json.Number("."+rest), nil
}

// plain is an integer without leading zeros, which JSON does not have.
func plain(digits string) json.Number {
	sign, digits := "", digits
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		digits = "0"
	}
	return json.Number(sign + digits)
}
