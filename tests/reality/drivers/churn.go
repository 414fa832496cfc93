// Go: objects of all ages, most of them short-lived; a map that is kept at one size.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	kept := map[int]string{}
	for step := 1; time.Now().Before(end); step++ {
		for i := 0; i < 100000; i++ {
			key := rand.Intn(20000)
			kept[key] = strings.Repeat(fmt.Sprintf("row %06d of step %06d", key, step), 1+key%20)
		}
		fmt.Println("step", step)
	}
}
