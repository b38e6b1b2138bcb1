package sim

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1" //nolint:gosec // the protocol signs with it
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

const callbackTries = 3

// Ring sends a callback about an account, as often as the faults say, each up to three times until it is answered by
// 200.
func (s *Server) Ring(accountID string) {
	s.mu.Lock()
	target := s.config.Callback
	if target == "" || s.chance("callback_lost") {
		s.mu.Unlock()
		return
	}
	token := s.id("ENC")
	s.bells[token] = s.now().Add(msgTokenLife)
	text := s.event(accountID, token)
	n, late := max(1, int(s.faults["callback_repeat"])), int64(s.faults["callback_shuffle"])
	var waits []time.Duration
	for range n {
		wait := time.Duration(0)
		if late > 0 {
			wait = time.Duration(s.rand.Int64N(late)) * time.Millisecond
		}
		waits = append(waits, wait)
	}
	s.mu.Unlock()
	for _, wait := range waits {
		s.pending.Go(func() {
			time.Sleep(wait)
			for range callbackTries {
				if s.post(target, text) == nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// event is the plaintext of a callback. The lock is held.
func (s *Server) event(accountID, token string) []byte {
	at := s.now().Unix()
	if s.config.JSON {
		text, _ := json.Marshal(map[string]any{
			"ToUserName": s.config.CorpID, "CreateTime": at, "MsgType": "event", "Event": "kf_msg_or_event",
			"Token": token, "OpenKfId": accountID,
		})
		return text
	}
	return fmt.Appendf(nil,
		"<xml><ToUserName><![CDATA[%s]]></ToUserName><CreateTime>%d</CreateTime><MsgType><![CDATA[event]]></MsgType>"+
			"<Event><![CDATA[kf_msg_or_event]]></Event><Token><![CDATA[%s]]></Token><OpenKfId><![CDATA[%s]]></OpenKfId></xml>",
		s.config.CorpID, at, token, accountID)
}

// post sends one callback.
func (s *Server) post(target string, text []byte) error {
	sealed, query := s.seal(text)
	body := []byte("<xml><ToUserName><![CDATA[" + s.config.CorpID + "]]></ToUserName><Encrypt><![CDATA[" + sealed +
		"]]></Encrypt></xml>")
	if s.config.JSON {
		body, _ = json.Marshal(map[string]string{"tousername": s.config.CorpID, "encrypt": sealed})
	}
	_, err := exchange(5*time.Second, http.MethodPost, target+"?"+query.Encode(), body)
	return err
}

// exchange makes a request and returns the body of its answer, which must be 200.
func exchange(within time.Duration, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return nil, errors.New(reply.Status)
	}
	return io.ReadAll(reply.Body)
}

// Check does what WeCom does when the URL of a callback is saved: it expects the plaintext back within a
// second.
func (s *Server) Check() error {
	s.mu.Lock()
	target := s.config.Callback
	s.mu.Unlock()
	const want = "1616140317555161061"
	sealed, query := s.seal([]byte(want))
	query.Set("echostr", sealed)
	got, err := exchange(time.Second, http.MethodGet, target+"?"+query.Encode(), nil)
	if err == nil && string(got) != want {
		err = fmt.Errorf("the callback answered %q, not the plaintext", got)
	}
	return err
}

// seal encrypts and signs.
func (s *Server) seal(text []byte) (sealed string, query url.Values) {
	s.mu.Lock()
	plain := make([]byte, 16, 64+len(text))
	for i := range plain {
		plain[i] = byte(s.rand.UintN(256))
	}
	nonce, at := strconv.Itoa(s.rand.IntN(1<<30)), strconv.FormatInt(time.Now().Unix(), 10)
	s.mu.Unlock()
	plain = binary.BigEndian.AppendUint32(plain, uint32(len(text))) //nolint:gosec // texts are short
	plain = append(append(plain, text...), s.config.CorpID...)
	pad := 32 - len(plain)%32
	plain = append(plain, bytes.Repeat([]byte{byte(pad)}, pad)...)
	block, err := aes.NewCipher(s.key)
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	cipher.NewCBCEncrypter(block, s.key[:16]).CryptBlocks(plain, plain)
	sealed = base64.StdEncoding.EncodeToString(plain)
	parts := []string{s.config.Token, at, nonce, sealed}
	sort.Strings(parts)
	sum := sha1.Sum([]byte(strings.Join(parts, ""))) //nolint:gosec // see above
	return sealed, url.Values{"msg_signature": {hex.EncodeToString(sum[:])}, "timestamp": {at}, "nonce": {nonce}}
}
