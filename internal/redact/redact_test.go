package redact_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/redact"
)

func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"kafka://h:1?token_file=/etc/token":    "kafka://h:1?token_file=/etc/token", // the name of a file is no secret
		"sqlite:a.db":                          "sqlite:a.db",
		"postgres://u@h/d":                     "postgres://u@h/d",
		"postgres://u:p@h:1/d?a=b":             "postgres://u:***@h:1/d?a=b",
		"postgres://u:a@b/c d:e@h/d":           "postgres://u:***@h/d",
		"postgres://:p@h":                      "postgres://:***@h",
		"postgres://h/d?user=u&password=p&a=b": "postgres://h/d?user=u&password=***&a=b",
		"postgres://h/d?sslpassword=p q":       "postgres://h/d?sslpassword=*** q",
		"redis://:p@h,x:q@i":                   "redis://:***@i",
		"postgres://u:sEc?a=b&ReT@h:1/db":      "postgres://u:***@h:1/db",
		"kafka://u:sEc?group=ReT@h:1":          "kafka://u:***@h:1",
		"kafka://u:s/E:c?fallback=ReT@h:1":     "kafka://u:***@h:1",
		"postgres://u@h:1/d?a=b":               "postgres://u@h:1/d?a=b",
		"postgres://h:1/d?user=u&password=p@q": "postgres://h:***",
		"postgres://u:x?password=y@h":          "postgres://u:***",

		"kafka://h:1?fallback=postgres://u:pw@i:1/x":                              "kafka://h:1?fallback=postgres://u:***@i:1/x",
		"kafka://a:b@h:1,i:2?group=g&fallback=postgres://u:pw@i/x&relay=sqlite:r": "kafka://a:***@h:1,i:2?group=g&fallback=postgres://u:***@i/x&relay=sqlite:r",
		"kafka://h?fallback=postgres%3A%2F%2Fu%3Apw%40i&relay=redis://:q@j":       "kafka://h?fallback=postgres://u:***@i&relay=redis://:***@j",
	} {
		if got := redact.URL(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestRedactorFindsThePasswordAnywhere(t *testing.T) {
	r := redact.New("postgres://u:s3%40cret+x@h/d", "")
	for _, text := range []string{
		"password authentication failed for s3@cret+x", "dial postgres://u:s3%40cret+x@h/d: no",
		"host=h password='an other' user=u", `{"url":"postgres://a:b@c"}`,
	} {
		got := r.Redact(text)
		for _, secret := range []string{"s3@cret", "s3%40cret", "an other", "a:b@"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %s", text, got)
			}
		}
	}
	if got := r.Redact("nothing to hide: user@host"); got != "nothing to hide: user@host" {
		t.Error(got)
	}
}

// TestRedactorFindsPiecesOfAPassword: a ? that is not escaped makes options of what
// follows it, and errors quote these.
func TestRedactorFindsPiecesOfAPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://u:sEc?a=b&ReT@127.0.0.1:1/db", "kafka://u:sEc?ReT@127.0.0.1:30405", "kafka://u:sEc?group=ReT@h",
		"kafka://h:1?fallback=postgres://u:sEc?x=ReT@h:1/x", "kafka://h:1?fallback=postgres%3A%2F%2Fu%3AsEc%3FReT%40h",
	} {
		r := redact.New(url)
		for _, text := range []string{
			url, redact.URL(url), `option "ReT@127.0.0.1:30405" is unknown`,
			`parse "postgres://u:sEc": invalid port ":sEc"`, "group=ReT%40h",
		} {
			if got := r.Redact(text); strings.Contains(got, "sEc") || strings.Contains(got, "ReT") {
				t.Errorf("%s: %s: %s", url, text, got)
			}
		}
	}
	const masked = "cannot open the store kafka://h:1?fallback=postgres://u:***@i:1/x: no"
	if got := redact.New("kafka://h:1?fallback=postgres://u:pw@i:1/x").Redact(masked); got != masked {
		t.Error(got)
	}
}

// FuzzRedactor takes any password, however it is written into the URL.
func FuzzRedactor(f *testing.F) {
	for _, seed := range []string{"pass@wo/rd ?#", "sEc?a=b&ReT", "sEc?group=ReT", "a:b/c?relay=d", "12?password=x@y",
		"x?y=%41%zz+1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, password string) {
		if len(password) < 3 || strings.Contains("postgres://user:***@host/db is not reachable", password) {
			return
		}
		url := "postgres://user:" + password + "@host/db"
		if got := redact.URL(url); strings.Contains(got, password) {
			t.Errorf("%q: %q", url, got)
		}
		if got := redact.New(url).Redact(url + " is not reachable"); strings.Contains(got, password) {
			t.Errorf("%q in a text: %q", url, got)
		}
		// An error quotes what it takes for an option, or for its value.
		for _, piece := range strings.FieldsFunc(password,
			func(r rune) bool { return strings.ContainsRune("?&=", r) }) {
			const around = `option "" is unknown`
			if len(piece) < 3 || strings.Contains(around, piece) || strings.Contains("***", piece) {
				continue
			}
			if got := redact.New(url).Redact(`option "` + piece + `" is unknown`); strings.Contains(got, piece) &&
				!short(piece) {
				t.Errorf("%q: piece %q: %q", url, piece, got)
			}
		}
	})
}

// short tells that a text has only parts that would mask half of every text.
func short(s string) bool {
	for _, part := range strings.FieldsFunc(s,
		func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r?&=@/:#,;\"'`[]", r) }) {
		if len(part) >= 3 && part != "pawl" {
			return false
		}
	}
	return true
}

// TestRedactorMasksWholeWords: "sp***s" would tell that the password is "lice".
func TestRedactorMasksWholeWords(t *testing.T) {
	r := redact.New("postgres://u:lice@h/d")
	for text, want := range map[string]string{
		"splices and slices":      "splices and slices",
		"lice":                    "***",
		"password=lice user=u":    "password=*** user=u",
		`"lice", (lice) lice.`:    `"***", (***) ***.`,
		"splices lice licelice":   "splices *** licelice",
		"user u:lice failed; lic": "user u:*** failed; lic",
	} {
		if got := r.Redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestCommand(t *testing.T) {
	for command, want := range map[string]string{
		"./send --to ann": "./send --to ann",
		"curl -H 'Authorization: Bearer abc123' http://h":       "curl -H 'Authorization: Bearer ***' http://h",
		"./send --password hunter2 --retries 3":                 "./send --password *** --retries 3",
		"./send --api-key=hunter2":                              "./send --api-key=***",
		"PGPASSWORD=hunter2 psql -c 'select 1'":                 "PGPASSWORD=*** psql -c 'select 1'",
		"curl -H 'X-Api-Key: hunter2' https://u:hunter2@h/path": "curl -H 'X-Api-Key: ***' https://u:***@h/path",
	} {
		if got := redact.Command(command); got != want {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

func BenchmarkRedactALineOfALog(b *testing.B) {
	r := redact.New("postgres://u:s3%40cret+x@h/d")
	const line = `time=2026-11-27T05:47:34.475Z level=WARN message="delivery failed" queue_topic=mail ` +
		`error="exit status 65" error_kind=Command policy.action=dead retry.count=1 retry.max=0 task_id=m8`
	for b.Loop() {
		_ = r.Redact(line)
	}
}

func TestSettingsOfSecretsAreFound(t *testing.T) {
	for _, text := range []string{"password=x1y", "a=b PGPASSWORD = x1y", "client_secret='x1y'", "API_KEY=x1y", "apikey\t=x1y",
		"a=b&token=x1y", "access_token=x1y", "pwd=x1y", "==password=x1y"} {
		if got := redact.New().Redact(text); strings.Contains(got, "x1y") {
			t.Errorf("%s: %s", text, got)
		}
	}
}
