// A slice of the package that is only ever appended to.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

var requests [][]byte

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for step := 0; time.Now().Before(end); step++ {
		fmt.Println("step", step)
		requests = append(requests, bytes.Repeat([]byte{1}, 262144))
		time.Sleep(100 * time.Millisecond)
	}
}
