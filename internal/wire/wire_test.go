package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/wire"
)

func TestParseMessage(t *testing.T) {
	got, err := wire.ParseMessage(
		[]byte(` {"topic":"mail","id":"m\u0031","key":"k\n","priority":-0,"body":"a\u0000\ud83d\ude00é",` +
			`"headers":{"a":"1","b":""},"not_before":"2026-01-31T12:00:00.5+01:00","unique_key":"u","unique_for_seconds":1.5} ` +
			"\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Draft{Message: pawl.Message{
		Topic: "mail", ID: "m1", Key: []byte("k\n"), Body: []byte("a\x00😀é"),
		Headers: map[string]string{"a": "1", "b": ""},
		Unique:  pawl.Unique{Key: "u", For: 1500 * time.Millisecond},
	}, NotBefore: got.NotBefore}
	if !reflect.DeepEqual(got, want) || !got.NotBefore.Equal(time.Date(2026, 1, 31, 11, 0, 0, 5e8, time.UTC)) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseMessageVariants(t *testing.T) {
	for line, want := range map[string]pawl.Message{
		`{}`: {},
		`{"key":null,"body":null,"headers":null,"id":null}`: {},
		`{"key":""}`:             {Key: []byte{}},
		`{"key_base64":"/wA="}`:  {Key: []byte{0xff, 0}},
		`{"body_base64":"/wA="}`: {Body: []byte{0xff, 0}},
		`{"body":{"n": 12345678901234567890.10, "a":[]}}`: {Body: []byte(`{"n": 12345678901234567890.10, "a":[]}`)},
		`{"body":[1.0,2e5]}`:                              {Body: []byte(`[1.0,2e5]`)},
		`{"body":""}`:                                     {Body: []byte{}},
		`{"delay_seconds":0.25,"priority":100}`:           {Delay: 250 * time.Millisecond, Priority: 100},
		`{"body":null,"body_base64":"AA=="}`:              {Body: []byte{0}},
	} {
		got, err := wire.ParseMessage([]byte(line))
		if err != nil || !reflect.DeepEqual(got.Message, want) &&
			!(want.Headers == nil && sameButEmpty(got.Message, want)) {
			t.Errorf("%s: got %+v, %v", line, got.Message, err)
		}
	}
}

// sameButEmpty compares what reflect.DeepEqual tells apart: empty and nil bodies.
func sameButEmpty(a, b pawl.Message) bool {
	same := bytes.Equal(a.Body, b.Body) && (a.Key == nil) == (b.Key == nil) && bytes.Equal(a.Key, b.Key)
	return same && a.Delay == b.Delay && a.Priority == b.Priority && len(a.Headers) == len(b.Headers)
}

func TestParseMessageErrors(t *testing.T) {
	for line, want := range map[string]string{
		``:                                  "column 1: unexpected end of JSON input",
		`"x"`:                               "column 1: expected '{' to begin an object, found '\"'",
		`[]`:                                "column 1: expected '{'",
		`{"topic":"a"`:                      "column 13: unexpected end of JSON input",
		`{"topic":"a",}`:                    "column 14: invalid character '}' looking for beginning of object key string",
		`{"topic" "a"}`:                     "column 10: invalid character '\"' after object key",
		`{"topic":"a"} {}`:                  "column 15: invalid character '{' after top-level value",
		`{"topc":"a"}`:                      `column 2: unknown field "topc"; a message has: topic, id,`,
		`{"Topic":"a"}`:                     `column 2: unknown field "Topic"`,
		`{"body":"a","body":"b"}`:           "column 13: body and body are given; give one",
		`{"body":"a","body_base64":"YQ=="}`: "column 13: body and body_base64 are given; give one",
		`{"key":"a","key_base64":"YQ=="}`:   "column 12: key and key_base64 are given",
		`{"not_before":"2026-01-01T00:00:00Z","delay_seconds":1}`: "column 38: not_before and delay_seconds are given",
		`{"body_base64":"YQ="}`:                                   "column 16: not base64",
		`{"body_base64":"YR=="}`:                                  "column 16: not base64",
		`{"body":1}`:                                              "column 9: expected a text, an object or an array as body, found '1'",
		`{"body":{"a":tru}}`:                                      "column 17: invalid character '}' in literal true",
		`{"body":{"a":01}}`:                                       "column 15: invalid character '1' after object key:value pair",
		`{"key":7}`:                                               "column 8: expected a text in double quotes, found '7'",
		`{"priority":1.5}`:                                        "column 13: 1.5 is not a whole number",
		`{"priority":1e1}`:                                        "column 13: 1e1 is not a whole number",
		`{"priority":99999999999999999999}`:                       "column 13: 99999999999999999999 is not a whole number",
		`{"priority":"1"}`:                                        "column 13: expected a number, found '\"'",
		`{"delay_seconds":1e10}`:                                  "column 18: 1e10 seconds; a duration is at most",
		`{"unique_key":"k","unique_for_seconds":-2}`:              "column 40: -2 seconds; the key is taken for a positive time",
		`{"delay_seconds":1e300}`:                                 "column 18: 1e300 seconds",
		`{"not_before":"tomorrow"}`:                               `column 15: "tomorrow" is not a time as in RFC 3339`,
		`{"headers":{"a":1}}`:                                     "column 17: expected a text",
		`{"headers":{"a":"1","a":"2"}}`:                           `column 21: header "a" is given twice`,
		`{"headers":[]}`:                                          "column 12: expected '{'",
		"{\"body\":\"a\tb\"}":                                     "column 11: invalid character '\\t' in string literal",
		"{\"body\":\"\xff\"}":                                     "column 10: not valid UTF-8 (byte 0xff); give bytes as base64",
		`{"body":"\ud83d"}`:                                       `column 10: \ud83d is half of a character`,
		`{"body":"\ud83dx"}`:                                      `column 10: \ud83d is half of a character`,
		`{"body":"\udc00\ud83d"}`:                                 `column 10: \udc00 is half of a character`,
		`{"body":"\x41"}`:                                         `column 11: invalid character 'x' in string escape code`,
		`{"body":"\u00g1"}`:                                       `column 14: invalid character 'g' in \u hexadecimal`,
		`{"body":"\u+123"}`:                                       `column 12: invalid character '+' in \u hexadecimal`,
		`{"body":"abc`:                                            "column 13: unexpected end of JSON input",
		`{"body":` + strings.Repeat("[", 5000):                    "column 5009: unexpected end of JSON input",
		`{"body":` + strings.Repeat("[", 20_000):                  "column 10008: invalid character '[' exceeded max depth",
		`{"body":{"a":"\\ud800"},"key":"\ud800\ud800"}`:           `column 32: \ud800 is half of a character`,
		`{"id":"a","topic":"é` + "\xc3\"}":                        "column 22: not valid UTF-8 (byte 0xc3)",
		`{"topc":1,"body":"abc`:                                   "column 2: unknown field",
		`{"priority":1.}`:                                         "column 15: invalid character '}' after decimal point",
	} {
		_, err := wire.ParseMessage([]byte(line))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q:\ngot  %v\nwant %s", line, err, want)
		}
	}
}

func TestDraftAt(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := wire.Draft{NotBefore: now.Add(time.Minute)}
	if got := d.At(now).Delay; got != time.Minute {
		t.Errorf("delay %v", got)
	}
	if got := d.At(now.Add(time.Hour)).Delay; got != 0 {
		t.Errorf("delay of what is due: %v", got)
	}
}

func TestParseVerdict(t *testing.T) {
	got, err := wire.ParseVerdict(
		[]byte(
			`{"id":"a","topic":"echoed","body":{"x":[1,null,true,false,"\n"]},"token":"t","verdict":"ack","kind":null,` +
				`"hold_seconds":1.5,"emit":[{"topic":"b","body":"x","delay_seconds":2},{"topic":"c"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Verdict{ID: "a", Token: "t", Verdict: "ack", Hold: 1500 * time.Millisecond, Emit: []wire.Draft{
		{Message: pawl.Message{Topic: "b", Body: []byte("x"), Delay: 2 * time.Second}},
		{Message: pawl.Message{Topic: "c"}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A pause of a verdict is none if it is negative, and the longest one if it is too long: the work is done.
func TestPausesOfVerdictsAreBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"-5": 0, "-1e400": 0, "0.5": 500 * time.Millisecond, "1e18": pawl.MaxPause, "1e400": pawl.MaxPause,
	} {
		ack, err := wire.ParseVerdict([]byte(`{"id":"a","token":"t","verdict":"ack","hold_seconds":` + text + `}`))
		if err != nil || ack.Hold != want {
			t.Errorf("hold of %s: %v, %v", text, ack.Hold, err)
		}
		retry, err := wire.ParseVerdict([]byte(`{"id":"a","token":"t","verdict":"retry","after_seconds":` + text + `}`))
		if err != nil || retry.After != want {
			t.Errorf("after %s: %v, %v", text, retry.After, err)
		}
	}
}

// Times of what is emitted may be over: the work is done. A message that is sent is refused.
func TestTimesOfEmitsMayBeOver(t *testing.T) {
	for _, member := range []string{`"retry_for_seconds":-5`, `"timeout_seconds":-1e300`,
		`"unique_key":"k","unique_for_seconds":-0.5`, `"unique":{"key":"k","for_seconds":-5}`} {
		v, err := wire.ParseVerdict([]byte(`{"id":"a","token":"t","verdict":"ack","emit":[{"topic":"b",` + member + `}]}`))
		if err != nil {
			t.Errorf("%s: %v", member, err)
			continue
		}
		m := v.Emit[0].At(time.Now())
		if err := m.Validate(); err != nil || m.RetriedFor()+m.TimeLimit()+m.Unique.For != time.Millisecond {
			t.Errorf("%s: %+v, %v", member, m, err)
		}
		if _, err := wire.ParseMessage([]byte(`{"topic":"b",` + member + `}`)); err == nil {
			t.Errorf("%s is taken of a message that is sent", member)
		}
	}
	v, err := wire.ParseVerdict(
		[]byte(`{"id":"a","token":"t","verdict":"ack","emit":[{"topic":"b","unique_key":"k","unique_for_seconds":-1}]}`))
	if err != nil || v.Emit[0].Unique.For != pawl.UntilClaimed {
		t.Errorf("%+v, %v", v, err)
	}
}

// A record of a program's log may have a verdict of another kind, and a delivery that it prints one in its body.
func TestRecordsWithAVerdictAreNone(t *testing.T) {
	for line, stray := range map[string]bool{
		`{"level":"info","verdict":"spam"}`: true,
		`{'verdict': 'spam'}`:               true,
		`{'id': 'a', 'attempt': 1, 'token': 't', 'body': '{"verdict": "guilty"}'}`: true,
		`{"verdict":"ack"}`: false,
		`{"verdict":`:       false,
		`{'id': 'a', 'token': 't', 'verdict': 'done'}`:    false,
		`{"id":"a","verdict":"done"}`:                     false,
		`{"id":"a","token":"t","verdict":"done"}`:         false,
		`{'id': 'a', 'attempt': 1, 'verdict': 'release'}`: false,
	} {
		if _, err := wire.ParseVerdict([]byte(line)); err == nil || errors.Is(err, wire.ErrStray) != stray {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestParseVerdictErrors(t *testing.T) {
	for line, want := range map[string]string{
		`hello`:                                                      "not a verdict: column 1: invalid character 'h'",
		`{"id":"a","msg":"verdict: x"}`:                              "not a verdict: verdict is missing",
		`{"id":"a","token":"t","topic":"mail"}`:                      "not a verdict: verdict is missing",
		`{"id":7,"msg":"x"}`:                                         "not a verdict: column 7: expected a text",
		`{"verdict":"ack"}`:                                          `"id" and "token" are missing`,
		`{"token":"t","verdict":"ack"}`:                              `"id" is missing`,
		`{"id":"a","verdict":"ack"}`:                                 `"token" is missing`,
		`{"id":"a","token":"t"}`:                                     "verdict is missing; it is ack, retry, dead or release",
		`{"id":"a","token":"t","verdict":"done"}`:                    `verdict is "done"; it is`,
		`{"id":"a","token":"t","verdict":"dead","after_seconds":1}`:  "after_seconds goes with retry and release",
		`{"id":"a","token":"t","verdict":"ack","after_seconds":1}`:   "after_seconds goes with retry and release",
		`{"id":"a","token":"t","verdict":"retry","emit":[{}]}`:       "emit goes with ack",
		`{"id":"a","token":"t","verdict":"ack","emit":{}}`:           "column 46: expected '['",
		`{"id":"a","token":"t","verdict":"ack","emit":[{"tpic":1}]}`: `column 48: unknown field "tpic"`,
	} {
		v, err := wire.ParseVerdict([]byte(line))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", line, err, want)
		}
		if strings.HasPrefix(line, `{"id":"`) && v.ID != "a" {
			t.Errorf("%s: the id is lost", line)
		}
	}
}

func TestAppendDelivery(t *testing.T) {
	for _, d := range []pawl.Delivery{
		{Message: pawl.Message{ID: "i", Topic: "t"}},
		{Message: pawl.Message{ID: `"\`, Topic: "t", Key: []byte{}, Body: []byte("\x00\x1f\x7f\u2028<&>")}},
		{Message: pawl.Message{ID: "é", Topic: "t", Key: []byte("k\r\n\t"), Body: []byte{0xff},
			Headers: map[string]string{"b": "\x00", "a": `"`}}},
		{Message: pawl.Message{ID: "i", Topic: "t", Key: []byte{0xfe}, Body: []byte("12345678901234567890.10")},
			Attempt: 7, Token: pawl.Token{Fence: 1 << 62, Lane: -5, Seq: 9}},
	} {
		line := wire.AppendDelivery([]byte("before "), &d, time.UnixMilli(1_700_000_000_123), true)
		var got struct {
			ID, Topic, Token string
			Key, Body        *string
			Attempt          int
			LastAttempt      bool `json:"last_attempt"`
			Deadline         time.Time
			Headers          map[string]string
			KeyBase64        []byte  `json:"key_base64"`
			BodyBase64       *[]byte `json:"body_base64"`
		}
		text, found := bytes.CutPrefix(line, []byte("before "))
		if err := json.Unmarshal(text, &got); err != nil || !found || bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("%s: %v", line, err)
		}
		body, key := []byte(nil), got.KeyBase64
		if got.Body != nil {
			body = []byte(*got.Body)
		} else {
			body = *got.BodyBase64
		}
		if got.Key != nil {
			key = []byte(*got.Key)
		}
		same := got.ID == d.ID && got.Topic == d.Topic && got.Token == d.Token.String() && got.Attempt == d.Attempt &&
			got.Headers != nil && got.LastAttempt && got.Deadline.UnixMilli() == 1_700_000_000_123
		if !same || !bytes.Equal(body, d.Body) || !bytes.Equal(key, d.Key) || (key == nil) != (d.Key == nil) ||
			fmt.Sprint(got.Headers) != fmt.Sprint(d.Headers) {
			t.Errorf("%s\nis not %+v", line, d)
		}
	}
}

// FuzzParseMessage compares with the standard library's lenient reader: what is
// accepted is valid JSON with the same meaning.
func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{
		`{"topic":"a","body":"\ud83d\ude00","headers":{"x":"y"},"priority":3}`, `{"body":{"a":[1e5,-0.1,true,null]}}`,
		`{"body_base64":"AA=="}`, `{"body":"\u0000é"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		d, err := wire.ParseMessage(line)
		if _, errVerdict := wire.ParseVerdict(line); err != nil {
			_ = errVerdict // it must not panic, that is all
			return
		}
		var std struct {
			Topic, ID  string
			Priority   int
			Body       json.RawMessage
			BodyBase64 []byte `json:"body_base64"`
			Headers    map[string]string
		}
		if err := json.Unmarshal(line, &std); err != nil {
			t.Fatalf("%q was accepted: %v", line, err)
		}
		body := []byte(std.Body)
		var text string
		switch {
		case std.BodyBase64 != nil:
			body = std.BodyBase64
		case json.Unmarshal(std.Body, &text) == nil:
			body = []byte(text)
		}
		if std.Topic != d.Topic || std.ID != d.ID || std.Priority != d.Priority || !bytes.Equal(body, d.Body) ||
			len(std.Headers) != len(d.Headers) {
			t.Fatalf("%q: %+v is not %+v", line, d, std)
		}
	})
}

func BenchmarkParseMessage(b *testing.B) {
	line := []byte(
		`{"topic":"mail","key":"customer-4711","priority":5,"body":"{\"order\":12345,\"to\":\"someone@example.com\",\"n\":1.10}","headers":{"traceparent":"00-x-y-01"}}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := wire.ParseMessage(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendDelivery(b *testing.B) {
	d := pawl.Delivery{Message: pawl.Message{ID: pawl.NewID(), Topic: "mail", Key: []byte("customer-4711"),
		Body: []byte(base64.StdEncoding.EncodeToString(make([]byte, 300)))}}
	var line []byte
	for b.Loop() {
		line = wire.AppendDelivery(line[:0], &d, time.Now(), false)
	}
}

// inLog is a record in a log.
type inLog struct{ body []byte }

func (inLog) Partition() int32     { return 3 }
func (inLog) Offset() int64        { return 1 << 40 }
func (inLog) Timestamp() time.Time { return time.UnixMilli(1500).In(time.FixedZone("", 3600)) }
func (l inLog) NullBody() bool     { return l.body == nil }
func (inLog) RawHeaders() []pawl.RawHeader {
	return []pawl.RawHeader{{Name: "a\x00\xff", Value: []byte{0xff}}, {Name: "a", Value: []byte{}}, {Name: "a"}}
}

func TestDeliveryFromALog(t *testing.T) {
	line := wire.AppendDelivery(nil, &pawl.Delivery{Message: pawl.Message{ID: "m1", Topic: "mail"}, Attempt: 1,
		Log: inLog{}}, time.Time{}, false)
	want := `{"id":"m1","topic":"mail","key":null,"attempt":1,"last_attempt":false,"token":"0.0.0","headers":{},` +
		`"log":{"partition":3,"offset":1099511627776,"timestamp":"1970-01-01T00:00:01.5Z","null_body":true,"headers":[` +
		`{"name":"a\u0000\ufffd","value_base64":"/w=="},{"name":"a","value_base64":""},{"name":"a","value_base64":null}]},"body":""}` +
		"\n"
	var got, expected any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(want), &expected)
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}
