package config

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/policy"
)

func TestAnOverrideAlone(t *testing.T) {
	o, err := ParseOverride([]byte("{\"match\": {\"type\": \"Download\", \"phase\": \"Failed\", \"kind\": \"RateLimit\"},\n"+
		"\"backoff\": {\"base\": \"2m\", \"max\": \"1h\"}, \"max_attempts\": 3, \"alert\": \"error\"}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Match.Domain != policy.Engine || *o.MaxAttempts != 3 || *o.Alert != policy.Error || *o.Backoff.Base != 2*60e9 {
		t.Errorf("%+v", o)
	}
	for text, wants := range map[string][]string{
		`{"match":{"kind":"RateLimit"}}`:                                 {"changes nothing"},
		`{"match":{"kind":"panic"},"alert":"error"}`:                     {"did you mean Panic?"},
		`{"match":{"kind":"RateLimit"},"alert":"loud","max_attempts":0}`: {"override: alert: ", "override: max_attempts: "},
		`{"match":{"kind":"RateLimit"},"alert":"info"}`:                  {"override: alert: weaker than rule"},
		`{"alert":"error"}`:                                              {"match"},
		`{"match":{"kind":"${file:/etc/hostname}"},"alert":"error"}`:     {"only a configuration file names others"},
		`{"match":{"kind":"${HOME}"},"alert":"error"}`:                   {"HOME"},
		`7`:                   {"override: "},
		`null`:                {"no value"},
		`{"match":{}},{"x":1`: {"invalid character"},
	} {
		_, err := ParseOverride([]byte(text), nil)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		}
	}
}
