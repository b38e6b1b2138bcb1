package wecom

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// The example of the vendor's page, https://developer.work.weixin.qq.com/document/path/91144.
const (
	vectorToken     = "QDG6eK"
	vectorKey       = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
	vectorReceiver  = "wx5823bf96d3bd56c7"
	vectorTime      = "1409659813"
	vectorNonce     = "1372623149"
	vectorSignature = "477715d11cdb4164915debcba66cb864d751f3e6"
	vectorSealed    = "RypEvHKD8QQKFhvQ6QleEB4J58tiPdvo+rtK1I9qca6aM/wvqnLSV5zEPeusUiX5L5X/0lWfrf0QADHHhGd3QczcdCUpj911L3vg3W/sYYvuJTs3TUUkSUXxaccAS0qhxchrRYt66wiSpGLYL42aM6A8dTT+6k4aSknmPj48kzJs8qLjvd4Xgpue06DOdnLxAUHzM6+kDZ+HMZfJYuR+LtwGc2hgf5gsijff0ekUNXZiqATP7PF5mZxZ3Izoun1s4zG4LUMnvw2r+KqCKIw+3IQH03v+BCA9nMELNqbSf6tiWSrXJB3LAVGUcallcrw8V2t9EL4EhzJWrQUax5wLVMNS0+rUPA3k22Ncx4XXZS9o0MBH27Bo6BpNelZpS+/uh9KsNlY6bHCmJU9p8g7m3fVKn28H3KDYA5Pl/T8Z1ptDAVe0lXdQ2YoyyH2uyPIGHBZZIs2pDBS8R07+qN+E7Q=="
)

func vector(t testing.TB) *seal {
	t.Helper()
	s, err := newSeal(vectorToken, vectorKey, vectorReceiver)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVendorsVector(t *testing.T) {
	s := vector(t)
	if !s.verify(vectorSignature, vectorTime, vectorNonce, vectorSealed) {
		t.Error("the signature is refused")
	}
	if s.verify(strings.Replace(vectorSignature, "4", "5", 1), vectorTime, vectorNonce, vectorSealed) ||
		s.verify("", vectorTime, vectorNonce, vectorSealed) {
		t.Error("a wrong signature is taken")
	}
	text, err := s.open(vectorSealed)
	if err != nil || len(text) != 284 || !bytes.Contains(text, []byte("<MsgId>4561255354251345929</MsgId>")) {
		t.Errorf("%d bytes %q, %v", len(text), text, err)
	}
	s.receiver = "ww-other"
	if _, err := s.open(vectorSealed); !errors.Is(err, errReceiver) {
		t.Errorf("for another receiver: %v", err)
	}
}

// encrypt is what WeCom does, with any padding.
func encrypt(s *seal, plain []byte) string {
	block, _ := aes.NewCipher(s.key)
	out := bytes.Clone(plain)
	cipher.NewCBCEncrypter(block, s.key[:16]).CryptBlocks(out, out)
	return base64.StdEncoding.EncodeToString(out)
}

func plaintext(message string, length uint32, receiver string, pad int) []byte {
	plain := append(make([]byte, 16), binary.BigEndian.AppendUint32(nil, length)...)
	plain = append(plain, message+receiver...)
	return append(plain, bytes.Repeat([]byte{byte(pad)}, pad)...)
}

func TestPaddingOf1To32(t *testing.T) {
	s := vector(t)
	for n := range 64 {
		message := strings.Repeat("x", n)
		pad := 32 - (20+n+len(vectorReceiver))%32
		got, err := s.open(encrypt(s, plaintext(message, uint32(n), vectorReceiver, pad)))
		if err != nil || string(got) != message {
			t.Errorf("padding of %d: %q, %v", pad, got, err)
		}
	}
}

func TestDamageIsRefused(t *testing.T) {
	s := vector(t)
	good := plaintext("hello", 5, vectorReceiver, 32-(25+len(vectorReceiver))%32)
	end := len(good) - 1
	for name, damage := range map[string]func([]byte) []byte{
		"padding of 0":       func(b []byte) []byte { b[end] = 0; return b },
		"padding of 33":      func(b []byte) []byte { b[end] = 33; return b },
		"uneven padding":     func(b []byte) []byte { b[end-1] ^= 1; return b },
		"length beyond":      func(b []byte) []byte { binary.BigEndian.PutUint32(b[16:], 1000); return b },
		"length that wraps":  func(b []byte) []byte { binary.BigEndian.PutUint32(b[16:], 0xffffffff); return b },
		"one block of AES":   func(b []byte) []byte { return b[:16] },
		"nothing":            func([]byte) []byte { return nil },
		"nothing but a head": func([]byte) []byte { return bytes.Repeat([]byte{32}, 32) },
	} {
		if text, err := s.open(encrypt(s, damage(bytes.Clone(good)))); err == nil {
			t.Errorf("%s is taken: %q", name, text)
		}
	}
	if _, err := s.open("no base64!"); err == nil {
		t.Error("what is no base64 is taken")
	}
	for _, key := range []string{"", "short", vectorKey + "x", strings.Repeat("*", 43)} {
		if _, err := newSeal("t", key, "r"); err == nil || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("the key %q: %v", key, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := vector(f)
	raw, _ := base64.StdEncoding.DecodeString(vectorSealed)
	f.Add(raw)
	f.Add(raw[:32])
	whole, _ := s.open(vectorSealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		if text, err := s.open(base64.StdEncoding.EncodeToString(b)); err == nil && !bytes.Equal(b, raw) &&
			bytes.Equal(text, whole) {
			t.Skip("the random bytes at the start are no part of the message")
		}
	})
}
