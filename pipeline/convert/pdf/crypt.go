package pdf

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	_ "crypto/sha512" // SHA-384, too
	"encoding/binary"
	"slices"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// decrypter decrypts a file that anybody may read: many forbid copying or printing by the password of an owner, and
// have an empty one for readers. The format prescribes the weak MD5 and RC4 (ISO 32000-2, 7.6).
type decrypter struct {
	key []byte
	v5  bool // the key is that of all objects
	aes bool // else RC4
}

// padding fills up passwords; an empty one is all padding.
const padding = "\x28\xbf\x4e\x5e\x4e\x75\x8a\x41\x64\x00\x4e\x56\xff\xfa\x01\x08" +
	"\x2e\x2e\x00\xb6\xd0\x68\x3e\x80\x2f\x0c\xa9\xfe\x64\x53\x69\x7a"

var errLocked = doc.Fail(doc.KindLocked, "it has a password; save it without one")

// decrypt finds the key of an encrypted file, and decrypts its objects.
func (f *file) decrypt() error {
	d := f.dict(f.trailer["Encrypt"])
	if d == nil {
		if f.trailer["Encrypt"] != nil {
			return errLocked
		}
		return nil
	}
	version, revision := int(f.num(d["V"])), int(f.num(d["R"]))
	str := func(k name) []byte { s, _ := f.get(d[k]).(text); return []byte(s) }
	method := f.name(f.dict(f.dict(d["CF"])[f.name(d["StmF"])])["CFM"])
	s := &decrypter{v5: version == 5, aes: method == "AESV2" || method == "AESV3"}
	switch {
	case f.name(d["Filter"]) != "Standard":
		return errLocked
	case version == 1 || version == 2 || version == 4 && (method == "V2" || s.aes):
		s.key = f.oldKey(d, version, revision, str)
	case s.v5 && s.aes:
		s.key = newKey(revision, str("U"), str("UE"))
	}
	if s.key == nil {
		return errLocked
	}
	for n, v := range f.objects {
		if stream, ok := v.(*stream); ok && stream.dict["Type"] != name("XRef") {
			stream.open = func(b []byte) []byte { return s.open(n, b) } // when it is read: most are pictures
		}
		if enc, ok := f.trailer["Encrypt"].(ref); !ok || n != enc {
			f.objects[n] = s.strings(n, v)
		}
	}
	return nil
}

// oldKey is the key of an empty password, up to PDF 1.7; nil if it has another one.
func (f *file) oldKey(d dict, version, revision int, str func(name) []byte) []byte {
	var id []byte
	if ids := f.list(f.trailer["ID"]); len(ids) > 0 {
		t, _ := f.get(ids[0]).(text)
		id = []byte(t)
	}
	size := int(f.num(d["Length"])) / 8
	switch {
	case version == 1 || revision < 3:
		size = 5
	case version == 4 || size < 5 || size > 16:
		size = 16
	}
	permissions := binary.LittleEndian.AppendUint32(nil, uint32(int64(f.num(d["P"]))))
	meta := ""
	if encrypted, ok := f.get(d["EncryptMetadata"]).(bool); revision >= 4 && ok && !encrypted {
		meta = "\xff\xff\xff\xff"
	}
	first := md5.Sum(slices.Concat([]byte(padding), str("O"), permissions, id, []byte(meta)))
	key := first[:]
	if revision >= 3 {
		for range 50 {
			sum := md5.Sum(key[:size])
			key = sum[:]
		}
	}
	key = key[:size]
	check := []byte(padding)
	if revision >= 3 {
		sum := md5.Sum(append(check, id...))
		check = sum[:]
	}
	for i := range byte(20) {
		if i > 0 && revision < 3 {
			break
		}
		other := bytes.Clone(key)
		for j := range other {
			other[j] ^= i
		}
		check = unrc4(other, check)
	}
	if !bytes.HasPrefix(str("U"), check) {
		return nil
	}
	return key
}

// newKey is the key of an empty password, from PDF 1.7 on; nil if it has another one.
func newKey(revision int, u, ue []byte) []byte {
	if len(u) < 48 || len(ue) < 32 || !bytes.Equal(hash(revision, u[32:40]), u[:32]) {
		return nil
	}
	key := make([]byte, 32)
	block, _ := aes.NewCipher(hash(revision, u[40:48])) // of 32 bytes
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, ue[:32])
	return key
}

// hash is that of an empty password with a salt.
func hash(revision int, salt []byte) []byte {
	sum := sha256.Sum256(salt)
	key := sum[:]
	for i, last := 0, 0; revision >= 6 && (i < 64 || last > i-32); i++ {
		data := bytes.Repeat(key, 64)
		block, _ := aes.NewCipher(key[:16])
		cipher.NewCBCEncrypter(block, key[16:32]).CryptBlocks(data, data)
		rest := 0
		for _, c := range data[:16] {
			rest += int(c)
		}
		last = int(data[len(data)-1])
		sum := []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}[rest%3].New()
		_, _ = sum.Write(data)
		key = sum.Sum(nil)
	}
	return key[:32]
}

// open decrypts bytes of an object.
func (s *decrypter) open(n ref, b []byte) []byte {
	key := s.key
	if !s.v5 {
		of := append(bytes.Clone(key), byte(n), byte(n>>8), byte(n>>16), 0, 0)
		if s.aes {
			of = append(of, "sAlT"...)
		}
		sum := md5.Sum(of)
		key = sum[:min(len(key)+5, 16)]
	}
	if !s.aes {
		return unrc4(key, b)
	}
	size := len(b) / aes.BlockSize * aes.BlockSize
	if size < 2*aes.BlockSize {
		return nil
	}
	block, _ := aes.NewCipher(key) // of 16 or 32 bytes
	out := make([]byte, size-aes.BlockSize)
	cipher.NewCBCDecrypter(block, b[:aes.BlockSize]).CryptBlocks(out, b[aes.BlockSize:size])
	return out[:len(out)-min(int(out[len(out)-1]), aes.BlockSize)]
}

// strings decrypts the strings of an object.
func (s *decrypter) strings(n ref, v any) any {
	switch v := v.(type) {
	case text:
		return text(s.open(n, []byte(v)))
	case []any:
		for i := range v {
			v[i] = s.strings(n, v[i])
		}
	case dict:
		for k := range v {
			v[k] = s.strings(n, v[k])
		}
	case *stream:
		s.strings(n, v.dict)
	}
	return v
}

func unrc4(key, b []byte) []byte {
	c, _ := rc4.NewCipher(key) // of 5 to 16 bytes
	out := make([]byte, len(b))
	c.XORKeyStream(out, b)
	return out
}
