package wecom

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// signed is the query of a callback with these contents.
func signed(s *seal, at time.Time, sealed string) url.Values {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return url.Values{"msg_signature": {s.signature(stamp, "n", sealed)}, "timestamp": {stamp}, "nonce": {"n"}}
}

func sealText(s *seal, text string) string {
	return encrypt(s, plaintext(text, uint32(len(text)), s.receiver, 32-(20+len(text)+len(s.receiver))%32))
}

// callbackOf answers a callback with this ciphertext, which is signed as WeCom does.
func callbackOf(s *seal, form string, raw []byte) int {
	c := &callback{seal: s, seen: func(string, time.Duration) {},
		ring: func(context.Context, doorbell) error { return nil }}
	sealed := base64.StdEncoding.EncodeToString(raw)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest("POST", "/?"+signed(s, time.Now(), sealed).Encode(),
		strings.NewReader(fmt.Sprintf(form, sealed))))
	return w.Code
}

const (
	outerXML  = "<xml><Encrypt><![CDATA[%s]]></Encrypt></xml>"
	outerJSON = `{"tousername":"ww","encrypt":%q,"agentid":"1"}`
)

// notices are callbacks as WeCom may send them, by what is special about them. Each %s is the corporation.
func notices() map[string]string {
	const members = "<ToUserName><![CDATA[%s]]></ToUserName><CreateTime>1795484000</CreateTime>" +
		"<MsgType><![CDATA[event]]></MsgType><Event><![CDATA[kf_msg_or_event]]></Event>" +
		"<Token><![CDATA[ENC1]]></Token><OpenKfId><![CDATA[wk1]]></OpenKfId></xml>"
	const (
		to, at = `"ToUserName":"%s"`, `"CreateTime":1795484000`
		what   = `"MsgType":"event","Event":"kf_msg_or_event"`
		token  = `"Token":"ENC1"`
		who    = `"OpenKfId":"wk1"`
	)
	object := func(members ...string) string { return "{" + strings.Join(members, ",") + "}" }
	return map[string]string{
		"XML":          "<xml>" + members,
		"spaced XML":   "\n<xml>\n" + members + "\n",
		"in order":     object(to, at, what, token, who),
		"sorted":       object(at, `"Event":"kf_msg_or_event","MsgType":"event"`, who, to, token),
		"spaced":       "{\n  " + strings.Join([]string{to, at, what, token, who}, ",\n  ") + "\n}",
		"account 1st":  object(who, to, at, what, token),
		"no account":   object(to, at, what, token),
		"a new member": object(to, at, what, token, who, `"Hint":{"a":[1]}`),
		"another kind": object(to, at, `"MsgType":"event","Event":"change_contact","ChangeType":"create_user"`),
		"a message":    object(to, at, `"MsgType":"text","Content":"hi","MsgId":45612553,"AgentID":2`),
	}
}

// A ciphertext with a flipped bit is never answered by 200, even if somebody has signed it. The first block is random
// bytes that nobody reads: a bit of it flips one of the first letters, and damages nothing else.
func TestDamagedCallbacks(t *testing.T) {
	s, seed := vector(t), uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not for secrets
	for name, text := range notices() {
		form := outerJSON
		if strings.Contains(text, "<xml>") {
			form = outerXML
		}
		tries, passed := 0, 0
		for tries < 3000 {
			// Which characters share a block depends on what comes before them.
			s.receiver = "ww" + strings.Repeat("x", chance.IntN(16))
			raw, err := base64.StdEncoding.DecodeString(sealText(s, fmt.Sprintf(text, s.receiver)))
			if err != nil {
				t.Fatal(err)
			}
			if got := callbackOf(s, form, raw); got != http.StatusOK {
				t.Fatalf("%s: undamaged, it is answered by %d", name, got)
			}
			flips := make([]int, 8*16, 8*16+100) // every bit of the first block
			for i := range flips {
				flips[i] = i
			}
			for range 100 {
				flips = append(flips, chance.IntN(8*len(raw)))
			}
			for _, bit := range flips {
				flip := byte(1) << (bit % 8)
				raw[bit/8] ^= flip
				if tries++; callbackOf(s, form, raw) == http.StatusOK {
					passed++
					t.Logf("%s: bit %d of byte %d", name, bit%8, bit/8)
				}
				raw[bit/8] ^= flip
			}
		}
		if passed > 0 {
			t.Errorf("%s: %d of %d damaged callbacks are answered by 200", name, passed, tries)
		}
	}
}

func TestCallback(t *testing.T) {
	s := vector(t)
	var rang []doorbell
	away := error(nil)
	c := &callback{
		seal: s, window: 10 * time.Minute, seen: func(string, time.Duration) {},
		ring: func(_ context.Context, b doorbell) error { rang = append(rang, b); return away },
	}
	other := vector(t)
	other.receiver = "ww-other"
	const event = "<xml><MsgType>event</MsgType><Event>kf_msg_or_event</Event><Token>ENC1</Token><OpenKfId>wk1</OpenKfId></xml>"
	xml := func(sealed string) string {
		return "<xml><ToUserName>x</ToUserName><Encrypt><![CDATA[" + sealed + "]]></Encrypt></xml>"
	}
	good, now := sealText(s, event), time.Now()
	for _, tc := range []struct {
		name, method string
		query        url.Values
		body         string
		status       int
		rings        int
	}{
		{"a doorbell", "POST", signed(s, now, good), xml(good), 200, 1},
		{"JSON", "POST", signed(s, now, sealText(s, `{"Event":"kf_msg_or_event","Token":"ENC1","OpenKfId":"wk1"}`)),
			fmt.Sprintf(`{"tousername":"x","encrypt":%q}`, sealText(s,
				`{"Event":"kf_msg_or_event","Token":"ENC1","OpenKfId":"wk1"}`)), 200, 1},
		{"another event", "POST", signed(s, now, sealText(s, "<xml><Event>other</Event></xml>")),
			xml(sealText(s, "<xml><Event>other</Event></xml>")), 200, 0},
		{"a wrong signature", "POST", url.Values{"msg_signature": {"00"},
			"timestamp": {strconv.FormatInt(now.Unix(), 10)}, "nonce": {"n"}}, xml(good), 403, 0},
		{"no signature", "POST", nil, xml(good), 400, 0},
		{"another receiver", "POST", signed(s, now, sealText(other, event)), xml(sealText(other, event)), 403, 0},
		{"an old one", "POST", signed(s, now.Add(-11*time.Minute), good), xml(good), 403, 0},
		{"one of the future", "POST", signed(s, now.Add(11*time.Minute), good), xml(good), 403, 0},
		{"signed, but damaged", "POST", signed(s, now, good[:len(good)-44]), xml(good[:len(good)-44]), 400, 0},
		{"signed, but no XML", "POST", signed(s, now, sealText(s, "hello")), xml(sealText(s, "hello")), 400, 0},
		{"no XML", "POST", signed(s, now, good), "hello", 400, 0},
		{"nothing", "POST", signed(s, now, good), "", 400, 0},
		{"too large", "POST", signed(s, now, good), strings.Repeat("x", maxCallback+1), 413, 0},
		{"another method", "PUT", signed(s, now, good), xml(good), 405, 0},
	} {
		rang = nil
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tc.method, "/?"+tc.query.Encode(),
			strings.NewReader(tc.body)))
		if w.Code != tc.status || len(rang) != tc.rings || w.Body.Len() != 0 {
			t.Errorf("%s: %d, %d rings, %q", tc.name, w.Code, len(rang), w.Body)
		}
		if len(rang) > 0 && rang[0] != (doorbell{Account: "wk1", Token: "ENC1"}) {
			t.Errorf("%s rang %+v", tc.name, rang[0])
		}
	}
	w := httptest.NewRecorder()
	q := signed(s, now, sealText(s, "echo me"))
	q.Set("echostr", sealText(s, "echo me"))
	q.Set("proxy", "added") // other parameters are no part of the signature
	c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+q.Encode(), nil))
	if w.Code != 200 || w.Body.String() != "echo me" {
		t.Errorf("the echo is %d %q", w.Code, w.Body)
	}
	away = errors.New("the store is away")
	w = httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?"+signed(s, now, good).Encode(),
		strings.NewReader(xml(good))))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a doorbell that is not stored is answered by %d", w.Code)
	}
}

// A sender that went away before the doorbell was stored is counted apart from a store that fails.
func TestCallbackOfASenderThatWentAway(t *testing.T) {
	s := vector(t)
	sealed := sealText(s, "<xml><Event>kf_msg_or_event</Event><Token>ENC1</Token><OpenKfId>wk1</OpenKfId></xml>")
	for _, gone := range []bool{true, false} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		result := ""
		c := &callback{seal: s, seen: func(as string, _ time.Duration) { result = as },
			ring: func(ctx context.Context, _ doorbell) error {
				if gone {
					leave()
				}
				return errors.Join(ctx.Err(), errors.New("away"))
			}}
		c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST",
			"/?"+signed(s, time.Now(), sealed).Encode(), strings.NewReader(fmt.Sprintf(outerXML, sealed))))
		if want := map[bool]string{true: "gone", false: "store"}[gone]; result != want {
			t.Errorf("gone %t: %q", gone, result)
		}
	}
}
