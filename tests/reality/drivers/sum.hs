-- Haskell: a map that is kept at one size, rebuilt in each step. sum SECONDS
import qualified Data.Map.Strict as Map
import System.Environment
import System.IO
import Data.Time.Clock.POSIX

main :: IO ()
main = do
  [seconds] <- getArgs
  hSetBuffering stdout LineBuffering
  began <- getPOSIXTime
  let loop step kept = do
        now <- getPOSIXTime
        if now - began > fromIntegral (read seconds :: Int) then return () else do
          let next = foldr (\i -> Map.insertWith (+) ((i * 7919 + step) `mod` 20000) i) kept [1 .. 20000 :: Int]
          putStrLn ("step " ++ show step ++ " of " ++ show (Map.foldl' (+) 0 next `mod` 1000))
          loop (step + 1) next
  loop 1 Map.empty
