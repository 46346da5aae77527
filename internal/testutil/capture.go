package testutil

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Record is one RPC message of a capture, its record mark left out.
type Record struct {
	FromClient bool
	Data       []byte
}

// Capture is what went over one connection, message by message in the order in
// which it was complete. As text it is a line that begins with > (from the
// client) or < and says how many bytes follow, then the bytes in hexadecimal,
// 32 a line; lines that begin with # are comments.
type Capture []Record

// maxCaptured bounds one message of a capture, in bytes.
const maxCaptured = 4 << 20

// WriteTo writes c as text.
func (c Capture) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	for _, r := range c {
		mark := byte('<')
		if r.FromClient {
			mark = '>'
		}
		fmt.Fprintf(&b, "%c %d\n", mark, len(r.Data))
		for data := r.Data; len(data) > 0; {
			n := min(len(data), 32)
			b.WriteString(hex.EncodeToString(data[:n]))
			b.WriteByte('\n')
			data = data[n:]
		}
	}
	return b.WriteTo(w)
}

// ReadCapture reads what WriteTo wrote.
func ReadCapture(r io.Reader) (c Capture, err error) {
	lines := bufio.NewScanner(r)
	want := 0 // bytes still to come
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case want == 0 && (line[0] == '>' || line[0] == '<'):
			if _, err := fmt.Sscanf(line[1:], "%d", &want); err != nil || want < 0 || want > maxCaptured {
				return nil, fmt.Errorf("capture, line %d: %q: a length is wanted", n, line)
			}
			c = append(c, Record{FromClient: line[0] == '>'})
		default:
			b, err := hex.DecodeString(line)
			if err != nil || len(b) > want {
				return nil, fmt.Errorf("capture, line %d: %q: at most %d bytes in hexadecimal are wanted", n, line, want)
			}
			last := &c[len(c)-1]
			last.Data = append(last.Data, b...)
			want -= len(b)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	if want > 0 {
		return nil, fmt.Errorf("capture: %d bytes are missing at the end", want)
	}
	return c, nil
}

// ReadCaptures reads the captures that match a pattern of filepath.Glob; an
// error if there is none.
func ReadCaptures(pattern string) ([]Capture, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no capture matches %s", pattern)
	}
	var all []Capture
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c, err := ReadCapture(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// Call takes an RPC call (RFC 5531 section 9) apart: its program, version and
// procedure, and the arguments. ok is false for anything else.
func (r Record) Call() (program, version, procedure uint32, args []byte, ok bool) {
	b := r.Data
	word := func() uint32 {
		if len(b) < 4 {
			b, ok = nil, false
			return 0
		}
		v := binary.BigEndian.Uint32(b)
		b = b[4:]
		return v
	}
	ok = r.FromClient
	word() // xid
	if mtype := word(); mtype != 0 {
		return 0, 0, 0, nil, false
	}
	word() // rpcvers
	program, version, procedure = word(), word(), word()
	for range 2 { // credential and verifier
		word()
		n := int(word()+3) &^ 3
		if n > len(b) {
			return 0, 0, 0, nil, false
		}
		b = b[n:]
	}
	return program, version, procedure, b, ok
}
