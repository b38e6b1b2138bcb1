package wecom

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1" //nolint:gosec // the protocol signs with it
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

// seal opens what WeCom encrypts: AES-256-CBC with the first half of the key as the IV. A plaintext is 16 random
// bytes, the length of the message as 32 bits, the message, and the id of the receiver.
type seal struct {
	token    string
	key      []byte
	receiver string
}

const (
	keyText   = 43 // characters of an EncodingAESKey
	padBlock  = 32 // the padding is to a multiple of this, which is not the block size of AES
	sealHead  = 16 + 4
	keyLength = 32
)

var (
	errReceiver = errors.New("the message is for another receiver: corp_id is not the one that it was encrypted for")
	errSealed   = errors.New("the ciphertext is damaged, or encoding_aes_key is not the one that it was encrypted with")
)

func newSeal(token, aesKey, receiver string) (*seal, error) {
	key, err := parseKey(aesKey)
	if err != nil {
		return nil, err
	}
	return &seal{token: token, key: key, receiver: receiver}, nil
}

func parseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text + "=")
	if len(text) != keyText || err != nil || len(key) != keyLength {
		// it is a secret: not quoted
		return nil, errors.New("must be the EncodingAESKey of the callback: 43 letters and digits")
	}
	return key, nil
}

// signature is what WeCom signs a callback with. Other parameters, such as those of a proxy, are not part of it.
func (s *seal) signature(timestamp, nonce, encrypted string) string {
	parts := []string{s.token, timestamp, nonce, encrypted}
	slices.Sort(parts)
	sum := sha1.Sum([]byte(strings.Join(parts, ""))) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// verify compares in a time that does not depend on where the signatures differ.
func (s *seal) verify(signature, timestamp, nonce, encrypted string) bool {
	return subtle.ConstantTimeCompare([]byte(signature), []byte(s.signature(timestamp, nonce, encrypted))) == 1
}

// open decrypts. Call verify before.
func (s *seal) open(encrypted string) ([]byte, error) {
	text, err := base64.StdEncoding.DecodeString(encrypted)
	if err != nil || len(text) == 0 || len(text)%padBlock != 0 {
		return nil, errSealed
	}
	block, err := aes.NewCipher(s.key)
	if err != nil {
		return nil, err
	}
	cipher.NewCBCDecrypter(block, s.key[:aes.BlockSize]).CryptBlocks(text, text)
	pad := int(text[len(text)-1])
	if pad < 1 || pad > padBlock || !bytes.Equal(text[len(text)-pad:], bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errSealed
	}
	text = text[:len(text)-pad]
	if len(text) < sealHead {
		return nil, errSealed
	}
	end := sealHead + int64(binary.BigEndian.Uint32(text[16:]))
	if end > int64(len(text)) {
		return nil, errSealed
	}
	if string(text[end:]) != s.receiver {
		return nil, errReceiver
	}
	return text[sealHead:end], nil
}
